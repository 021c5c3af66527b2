"""One command in a pen, as the host sees it."""

import fcntl
import os
import signal
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Exited, Stream
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import Request, Result
from pinfold.sandbox.command_io import Pump
from pinfold.sandbox.drain import Drain
from pinfold.sandbox.linux.host.pen import Pen
from pinfold.sandbox.linux.protocol.command import EXITED, SIGNALLED, STATUS
from pinfold.sandbox.running_command import PumpedCommand

if TYPE_CHECKING:
    import socket

TIOCGPTPEER = 0x5441


class Session(Protocol):
    """What a command needs of the session that it is one of."""

    closed: bool
    drain: Drain
    running: set["PennedCommand"]
    """Those under way: each is among them until it has ended and was told so."""

    def next_tag(self, pen: Pen, request: Request) -> int: ...

    def kill(self, tag: int) -> None:
        """Ends every process of one command."""


class PennedCommand(PumpedCommand):
    """INVARIANT: what the status pipe says comes from a process that hostile commands share a uid with: two
    numbers of fixed size are read from it, and nothing else is believed."""

    def __init__(
        self,
        session: Session,
        pen: Pen,
        tag: int,
        request: Request,
        streams: dict[int, Stream],
        status: int,
        feed: tuple[int, bytes | int] | None,
    ) -> None:
        self.session = session
        self.pen = pen
        self.tag = tag
        self.request = request
        self.refused: dict[tuple[str, str], Violation] = {}
        self.status = status
        self.terminal = next(iter(streams)) if request.terminal else None
        self.pump = Pump(
            streams, status, self._read_end, self._kill, self._leave, feed, request.timeout, pen.wake
        )

    def began(self) -> None:
        self.pen.began()
        self.session.running.add(self)
        self.pump.is_begun = True

    def wait(self) -> Result:
        result = self.pump.wait(self.request.output, self.pen.enforcement)
        violations = self.violations()
        return replace(result, violations=violations) if violations else result

    def violations(self) -> tuple[Violation, ...]:
        # A fork of the host would read what its warden tells of the other's commands.
        for violation in self.pen.refusals.of(self.tag) if self.pump.is_own else ():
            self.refused[violation.operation, violation.path] = violation
        return tuple(self.refused.values())

    def _kill(self) -> None:
        self.session.kill(self.tag)
        self.pen.refusals.settle()

    def _leave(self, descriptors: list[int]) -> None:
        self.pen.ended()
        self.session.running.discard(self)
        self.session.drain.leave(descriptors)

    def _read_end(self) -> Exited | None:
        data = os.read(self.status, STATUS.size)
        if len(data) != STATUS.size:
            if self.cancelled or self.session.closed:
                return Exited(None, signal.SIGKILL, cancelled=True)
            raise ConfinementError("the pen ended while the command ran; how far it came is not known")
        kind, value = STATUS.unpack(data)
        if kind == EXITED:
            return Exited(value & 0xFF, None, cancelled=self.cancelled)
        if kind == SIGNALLED:
            return Exited(None, value & 0x7F, cancelled=self.cancelled)
        return None


def receive_terminal(channel: "socket.socket") -> int:
    """The master of the terminal that the spawner made.

    A side that nobody ever had open does not hang up, and a command may be killed before it opens its own: so
    it is opened once, here.
    """
    channel.settimeout(10)
    import socket

    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if len(descriptors) != 1:
        raise ConfinementError("the pen gave no terminal")
    (master,) = descriptors
    os.set_inheritable(master, False)
    try:
        os.close(fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        os.close(master)
        raise
    return master
