"""Work that a process does as its last: it ends with it, and tells a failure before, or with its keeper."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable

from pinfold.kernel.process import set_dumpable, set_no_new_privs, set_parent_death_signal
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.failure import Failed, words_of


def serve_alone(keeper: int) -> None:
    """Gains nothing any more, shows its memory to nobody, forgets its environment, and ends with the keeper.

    Preconditions: this process' credentials and powers are its last: changing them would undo some of it.
    """
    set_no_new_privs()
    set_dumpable(False)
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != keeper:
        raise Failed("the keeper is gone")
    os.environ.clear()


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
