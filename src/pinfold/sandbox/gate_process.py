"""The gate's process: started for a session that wants out, and ended with it.

It runs outside every pen, as the host does. The host starts it like the keeper: as a program of its own, by
vfork, since the host has threads. It imports the gate's modules from where the host has them, and nothing
from the working directory.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from importlib.machinery import PathFinder

import msgspec

from pinfold.isolated import SOURCE
from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host.spawn_keeper import start_program

LIBRARIES = ("pinfold", "msgspec", "h11", "idna")
PROGRAM = (
    "import os, sys; os.closerange(3, 1 << 20); sys.path += {!r};"
    "from pinfold.network.__main__ import main; os._exit(main(['0']))"
)


class GateProcess:
    """INVARIANT: without its line the gate ends: when we close it, and when we are killed."""

    def __init__(self) -> None:
        try:
            self.pid, self.process, line = start_program(PROGRAM.format(_places()))
        except OSError as error:
            raise ConfinementError(f"the gate could not be started: {error}") from None
        self.line = socket.socket(fileno=line)

    def end(self) -> None:
        """Kills the gate. A caller that wants its last records reads them before."""
        with suppress(OSError):  # it is gone already
            self.line.shutdown(socket.SHUT_RDWR)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)
        with suppress(ChildProcessError):  # a host that ignores SIGCHLD has it reaped by the kernel
            os.waitpid(self.pid, 0)
        os.close(self.process)
        self.line.close()


def _places() -> list[str]:
    """Looked for first where our package and msgspec were found: a host may have the project on its path."""
    found = [SOURCE, os.path.dirname(os.path.dirname(msgspec.__file__)), *sys.path]
    specs = [PathFinder.find_spec(name, found) for name in LIBRARIES]
    return list(
        dict.fromkeys(os.path.dirname(os.path.dirname(spec.origin)) for spec in specs if spec and spec.origin)
    )
