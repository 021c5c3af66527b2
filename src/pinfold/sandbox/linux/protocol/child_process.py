"""How a process that the keeper forked ends: after its work, which may fail, or with the keeper."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable

from pinfold.kernel.process import set_dumpable, set_no_new_privs, set_parent_death_signal
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.keeper import NotReady


class BuildError(Exception):
    """A session, a pen or a granter could not be made; the text says why."""


def words_of(error: BaseException) -> str:
    """The text of an error in one line, for the host: the kernel's words, where the kernel spoke."""
    if isinstance(error, BuildError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename!r})" if error.filename else ""
        return f"{error.strerror}{where}"
    return f"{type(error).__name__}: {error}"


def serve_alone(keeper: int) -> None:
    """Lets this process gain nothing any more, hides its memory, clears its environment, and ends it with the
    keeper.

    Preconditions: its credentials and capabilities are final: changing them would undo some of this.
    """
    set_no_new_privs()
    set_dumpable(False)
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != keeper:
        raise BuildError("the keeper is gone")
    os.environ.clear()


def end_with(work: Callable[[], None], keeper: socket.socket) -> None:
    """Runs the work and ends this process. A failure is reported first."""
    try:
        work()
    except channel.ChannelClosed:
        pass
    except BaseException as error:  # noqa: BLE001  (this process must end here in any case)
        with contextlib.suppress(channel.ChannelClosed, OSError):
            channel.send(keeper, NotReady(words_of(error)))
    finally:
        os._exit(0)
