"""Work that a process does as its last: it ends with it, and tells a failure before."""

import contextlib
import os
import socket
from collections.abc import Callable

from pinfold.sandbox.linux import channel
from pinfold.sandbox.linux.failure import words_of


def end_with(work: Callable[[], None], keeper: socket.socket) -> None:
    """Runs the work and ends this process."""
    try:
        work()
    except channel.Closed:
        pass
    except BaseException as error:  # noqa: BLE001  (whatever it was, this process must end here and say so)
        with contextlib.suppress(channel.Closed, OSError):
            channel.send(keeper, ("failed", words_of(error)))
    finally:
        os._exit(0)
