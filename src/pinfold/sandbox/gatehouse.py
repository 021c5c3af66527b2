"""The gate's process: started for a session that wants out, and ended with it.

It runs outside of every fence, as the host does, and is started like the keeper: a program of its own, by
vfork, since the host has threads. Of the host's modules it gets what the gate imports, from where the host
has them, and nothing from the directory that somebody works in.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from importlib.util import find_spec

from pinfold.model.errors import ConfinementError

LIBRARIES = ("pinfold", "msgspec", "h11", "idna")
PROGRAM = (
    "import os, sys; os.closerange(3, 1 << 20); sys.path += {!r};"
    "from pinfold.network.__main__ import main; os._exit(main(['0']))"
)


class Gatehouse:
    """INVARIANT: without its line the gate ends: when we close it, and when we are killed."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(_places())],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=(),
            )
            self.process = os.pidfd_open(self.pid)
        except OSError as error:
            self.line.close()
            raise ConfinementError(f"the gate could not be started: {error}") from None
        finally:
            theirs.close()

    def end(self) -> None:
        """Whatever it is doing; who wants its last words hears them before."""
        with suppress(OSError):  # it is gone already
            self.line.shutdown(socket.SHUT_RDWR)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)
        with suppress(ChildProcessError):  # a host that ignores SIGCHLD has it reaped by the kernel
            os.waitpid(self.pid, 0)
        os.close(self.process)
        self.line.close()


def _places() -> list[str]:
    specs = [find_spec(name) for name in LIBRARIES]
    return list(
        dict.fromkeys(os.path.dirname(os.path.dirname(spec.origin)) for spec in specs if spec and spec.origin)
    )
