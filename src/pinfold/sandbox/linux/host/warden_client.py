"""What a pen's warden refused, as the host hears of it; and what the host tells the warden.

No thread waits for it: the warden writes a record before it answers the call, so each denial of a command is
in the socket by the time its end is known, and one read that does not block finds it.
"""

import _socket
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from pinfold.model.codes import AskedAt, ViolationCode
from pinfold.model.env_files import FileIdentity
from pinfold.model.errors import ConfinementError
from pinfold.model.violation import WARDEN, Violation
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.warden import (
    CallAnswer,
    CallAsked,
    CallRefused,
    CallWithdrawn,
    EnvFileMade,
    Hold,
    LastWords,
    Settle,
    Settled,
    WardenReport,
)

STEP = 0.1
SETTLING = 1.0
"""Seconds: a warden may be about something longer for another command of its pen."""
GLANCE = 0.01
COMMANDS = 256
"""For how many commands refusals are kept until they are asked for; those left running may never be."""


class WardenClient:
    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self.connection.setblocking(False)
        self.news = select.poll()
        self.news.register(connection, select.POLLIN)
        self.lock = threading.Lock()
        self.found: dict[int, dict[tuple[str, str], Violation]] = {}
        self.asked: Callable[[CallAsked], None] | None = None
        """Hears, on the thread that reads, which calls wait."""
        self.made: Callable[[FileIdentity], None] = lambda _identity: None
        """Told which `.env` files its commands have made."""
        self.withdrawn: Callable[[int], None] = lambda _id: None
        self.catch_up: Callable[[int], None] = lambda _tag: None
        """Returns once the gate has reported its denials of a command so far."""
        self.settling = self.settled = 0
        """How often the warden was asked to tell when it is done, and which time it has told."""
        self.ended = ""
        """Why the warden has ended, once it has: its pen is good for nothing then."""
        self.is_closing = False
        """Whether we end it ourselves: its end is then no error, and no question is asked any more."""

    def of(self, tag: int) -> tuple[Violation, ...]:
        """What the command that carries a tag was refused since this was last asked."""
        self.catch_up(tag)
        with self.lock:
            self._read()
            refused = tuple(self.found.pop(tag, {}).values())
        return (*refused, _end(self.ended)) if self.ended and not self.is_closing else refused

    def _read(self) -> None:
        try:
            # Most commands are refused nothing: to ask costs half of a read that finds nothing.
            while self.news.poll(0):
                self._keep(channel.receive(self.connection, WardenReport)[0])
        except channel.ChannelClosed:
            self.ended = self.ended or "it said nothing"
        except OSError:
            return  # there is no more to read for now, or the pen is closed

    def read(self) -> None:
        """Takes what has come."""
        with self.lock:
            self._read()

    def answer(self, answer: CallAnswer, descriptors: tuple[int, ...] = ()) -> None:
        """Answers a call that waits. Blocks while the warden's socket is full; the warden itself never
        blocks."""
        while True:
            try:
                with self.lock:
                    return channel.send(self.connection, answer, descriptors)
            except BlockingIOError:
                _wait(self.connection, select.POLLOUT, STEP)
            except (channel.ChannelClosed, OSError):
                return None  # it has ended, and so has its pen

    def _keep(self, report: WardenReport) -> None:
        match report:
            case CallAsked() if self.asked:
                if not self.is_closing:
                    self.asked(report)
            case CallWithdrawn(id_):
                self.withdrawn(id_)
            case Settled(number):
                self.settled = max(self.settled, number)
            case EnvFileMade():
                self.made(FileIdentity(*report.values()))
            case LastWords(why):
                self.ended = why
            case CallRefused():
                self._keep_refused(report)

    def _keep_refused(self, refused: CallRefused) -> None:
        violation = _violation(refused)
        is_nothing = violation.code is ViolationCode.UNSHOWN and not os.path.exists(violation.path)
        if not is_nothing:  # it is missing on the machine, too
            self._add(refused.tag, violation)

    def add(self, tag: int, violation: Violation) -> None:
        """Adds a denial by another process than the warden."""
        with self.lock:
            self._add(tag, violation)

    def _add(self, tag: int, violation: Violation) -> None:
        while tag not in self.found and len(self.found) >= COMMANDS:
            del self.found[next(iter(self.found))]
        self.found.setdefault(tag, {})[violation.operation, violation.path] = violation

    def hold(self, protected: tuple[str, ...], hidden: tuple[str, ...]) -> None:
        """Tells the warden what has come into being and must not be written or seen.

        Raises if it could not be told now. One that has ended cannot be told: its pen is given up.
        """
        with self.lock, suppress(channel.ChannelClosed):
            try:
                channel.send(self.connection, Hold(protected, hidden))
            except OSError as error:
                raise ConfinementError(
                    f"a sandbox could not be updated for new files: {error.strerror}"
                ) from None

    def settle(self) -> None:
        """Returns when the warden has finished the calls that it had begun. It begins none of killed
        callers."""
        with self.lock:
            self.settling = number = self.settling + 1
            try:
                channel.send(self.connection, Settle(number))
            except (OSError, channel.ChannelClosed):
                return  # it has ended, or has more to hear than it can
        late = monotonic() + SETTLING
        while self.settled < number and not self.ended and not self.is_closing and monotonic() < late:
            _wait(self.connection, select.POLLIN, GLANCE)
            self.read()

    def close(self) -> None:
        """Its reports so far can be read afterwards, too."""
        with self.lock:
            self.is_closing = True
            self._read()
            self.connection.close()


def _wait(connection: _socket.socket, event: int, seconds: float) -> None:
    """Without the lock: others have to do with the warden meanwhile."""
    poll = select.poll()
    with suppress(ValueError):  # closed just now
        poll.register(connection, event)
        poll.poll(seconds * 1000)


def _end(why: str) -> Violation:
    told = f"the warden of this sandbox ended ({why}); calls that needed it failed, and none was let through"
    code = ViolationCode.WARDEN_ENDED
    return Violation(WARDEN, "", "", told, "pinfold-warden", 0, grantable=False, code=code)


def _violation(refused: CallRefused) -> Violation:
    return Violation(
        refused.operation,
        refused.path,
        refused.rule,
        refused.why,
        refused.program,
        refused.pid,
        refused.grantable,
        ViolationCode(refused.code),
        refused.times,
        refused.answered,
        AskedAt(refused.asked_at),
        refused.is_git_writes,
        remedy=refused.remedy,
    )
