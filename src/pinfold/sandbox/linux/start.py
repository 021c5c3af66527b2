"""The start of one command: descriptors opened, tagged, asked for, and undone if it failed.

INVARIANT: between the two prlimits the spawner starts exactly this command, so that all of its processes,
and no other's, carry its tag. `Pen.lock` holds that together.

Commands have their spawner's uid: one may stop it (SIGSTOP), so it is continued before it is asked, and one
that does not answer for `PATIENCE` seconds is given up. Signals go to it by a handle: the number of one that
has ended may be anybody's.
"""

import _socket
import errno
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from pinfold.kernel.process import Pace, pace_of, prlimit
from pinfold.model.errors import ConfinementError
from pinfold.model.events import Stream
from pinfold.sandbox.backend import Request, Running, arguments_of
from pinfold.sandbox.drain import Drain
from pinfold.sandbox.enforcement import Enforcement
from pinfold.sandbox.linux import channel
from pinfold.sandbox.linux.command import PennedCommand, receive_terminal
from pinfold.sandbox.linux.held import Held
from pinfold.sandbox.linux.refusals import Refusals
from pinfold.sandbox.linux.replies import FAILED, NO_DIRECTORY, RLIMIT_RTTIME, STARTED, STATUS
from pinfold.sandbox.plan import Plan
from pinfold.sandbox.unstarted import Unstarted

if TYPE_CHECKING:
    import socket

PATIENCE = 5.0
STEP = 0.25


class Pen:
    """One effective policy's confinement, warm."""

    def __init__(
        self,
        number: int,
        pid: int,
        handle: int,
        control: _socket.socket,
        refusals: Refusals,
        plan: Plan,
        enforcement: Enforcement,
        environment: dict[str, str],
        pace: Pace,
        held: Held,
        protected: Iterable[str],
        hidden: Iterable[str],
        leads_out: bool,
    ) -> None:
        self.number = number
        self.pid = pid
        self.handle = handle
        """The spawner's pidfd, which is the pen's to close; -1 from then on."""
        self.handling = threading.Lock()
        self.control = control
        self.refusals = refusals
        self.plan = plan
        self.enforcement = enforcement
        self.environment = environment
        """What a command gets that brings none of its own."""
        self.last_environment: dict[str, str] | None = None
        """What the last one got, which the spawner has in mind."""
        self.pace = pace
        """The keeper's, when it was made: no command can slow that down."""
        self.held = held
        """What is compared before each command; not all of it where that is too much."""
        self.protected = set(protected)
        self.hidden = set(hidden)
        """All that it holds: built so, or its warden was told."""
        self.leads_out = leads_out
        """Whether its programs can reach hosts outside."""
        self.lock = threading.Lock()
        self.running = 0
        self.idle_since = time.monotonic()

    def began(self) -> None:
        with self.lock:
            self.running += 1

    def ended(self) -> None:
        with self.lock:
            self.running -= 1
            self.idle_since = time.monotonic()

    def signal(self, number: int) -> None:
        """To the spawner; raises ProcessLookupError once that has ended."""
        with self.handling:
            if self.handle < 0:
                raise ProcessLookupError
            signal.pidfd_send_signal(self.handle, number)

    def wake(self) -> None:
        """A command may have stopped the spawner, which has to report its end."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)

    def keeps_pace(self) -> bool:
        """Whether commands begin as fast as the keeper's children: one may have slowed down their spawner."""
        try:
            return pace_of(self.pid) == self.pace
        except OSError:
            return True  # it has ended, which is found out where it is told

    def close(self) -> None:
        self.control.close()
        self.refusals.close()
        with self.handling:
            if self.handle >= 0:
                os.close(self.handle)
            self.handle = -1


def answers(pen: Pen, status: int) -> bool:
    """Waits until a spawner has answered, or is gone; False if it does neither."""
    poll = select.poll()
    poll.register(status, select.POLLIN)
    for _ in range(int(PATIENCE / STEP)):
        if poll.poll(STEP * 1000):
            return True
        pen.wake()
    return False


class PenGone(ConfinementError):  # noqa: N818
    """The pen ended before the command began: nothing was run, and another pen may be made."""


class Start:
    def __init__(
        self,
        pen: Pen,
        request: Request,
        next_tag: Callable[[], int],
        kill: Callable[[int], None],
        is_closed: Callable[[], bool],
        drain: Drain,
        running: set[PennedCommand],
    ) -> None:
        self.pen = pen
        self.request = request
        self.next_tag = next_tag
        self.kill = kill
        self.is_closed = is_closed
        self.drain = drain
        self.running = running
        """The session's commands under way: this one is among them until it has ended and was told so."""
        self.ours: list[int] = []
        self.theirs: list[int] = []

    def send(self, environment: dict[str, str]) -> Running:
        started = False
        try:
            command = self._send(environment)
            started = isinstance(command, PennedCommand)
            return command
        finally:
            self._close(self.theirs)
            if not started:
                self._close(self.ours)

    def _send(self, environment: dict[str, str]) -> Running:
        request = self.request
        try:
            status = self._pipe(reads=True)
            terminal = self._terminal() if request.terminal else None
            feed = self._pipe(reads=False) if request.stdin is not None and not terminal else None
            streams = {} if terminal else {self._pipe(True): Stream.STDOUT, self._pipe(True): Stream.STDERR}
        except OSError as error:
            raise ConfinementError(f"no streams for the command: {error.strerror}; nothing was run") from None
        tag, kind, value = self._tagged(environment, status)
        if kind != STARTED:
            return self._not_started(kind, value)
        try:
            if terminal:
                streams[self._master(terminal)] = Stream.STDOUT
            command = PennedCommand(
                request,
                self.pen.enforcement,
                streams,
                status,
                None if feed is None or request.stdin is None else (feed, request.stdin),
                lambda: self.kill(tag),
                self.is_closed,
                self._ended,
                self.drain,
                lambda: self.pen.refusals.of(tag),
                self.pen.wake,
            )
        except BaseException:
            self.kill(tag)  # nobody will have it
            raise
        self.pen.began()
        self.running.add(command)
        return command

    def _ended(self, command: PennedCommand) -> None:
        self.pen.ended()
        self.running.discard(command)

    def _master(self, terminal: "socket.socket") -> int:
        try:
            with terminal:
                self.ours.append(receive_terminal(terminal))
        except (OSError, ConfinementError) as error:
            raise ConfinementError(f"no terminal came from the pen: {error}; the command was ended") from None
        return self.ours[-1]

    def _tagged(self, environment: dict[str, str], status: int) -> tuple[int, int, int]:
        """Sends the request while the spawner carries the command's tag; that, and the spawner's answer."""
        arguments = arguments_of(self.request)
        with self.pen.lock:
            tag = self.next_tag()
            try:
                self.pen.signal(signal.SIGCONT)
                self._tag(tag)
                told = None if environment == self.pen.last_environment else environment
                message = (arguments, self.request.cwd, told, self.request.terminal)
                # Whoever is interrupted (Ctrl-C) does not know whether it was told.
                self.pen.last_environment = None
                channel.send(self.pen.control, message, tuple(self.theirs))
                self.pen.last_environment = environment
            except (ProcessLookupError, channel.Closed):
                raise PenGone("the pen is gone; nothing was run") from None
            except (OSError, ValueError) as error:
                raise ConfinementError(f"the pen cannot be reached: {error}; nothing was run") from None
            self._close(self.theirs)
            try:
                answer = os.read(status, STATUS.size) if answers(self.pen, status) else b""
            except BaseException:
                # Interrupted, as by Ctrl-C: nobody will have this command, so it is not left running.
                answers(self.pen, status)
                self._untag(tag)
                self.kill(tag)
                raise
            self._untag(tag)
        if len(answer) != STATUS.size:
            # The request was taken: a command that kills its spawner at once is not to be run a second time.
            self.kill(tag)
            with suppress(ProcessLookupError):
                self.pen.signal(signal.SIGKILL)
            raise ConfinementError("the pen ended while the command began; how far it came is not known")
        return tag, *STATUS.unpack(answer)

    def _tag(self, tag: int) -> None:
        prlimit(self.pen.pid, RLIMIT_RTTIME, (tag, tag))

    def _untag(self, tag: int) -> None:
        with suppress(ProcessLookupError):
            self.pen.signal(0)  # is it still there? A limit is set by number
            self._tag(tag - 1)

    def _not_started(self, kind: int, value: int) -> Running:
        why = os.strerror(value)
        if kind == NO_DIRECTORY:
            raise ConfinementError(f"the directory {self.request.cwd!r} cannot be entered in the pen: {why}")
        if kind != FAILED or value in (errno.EAGAIN, errno.ENOMEM):
            raise ConfinementError(f"the session can start no more processes: {why}; nothing was run")
        newline = "\r\n" if self.request.terminal else "\n"
        return Unstarted(arguments_of(self.request)[0], value, self.pen.enforcement, newline)

    def _pipe(self, reads: bool) -> int:
        """A pipe of which the command gets the other end; ours reads or writes."""
        out, into = os.pipe2(os.O_CLOEXEC)
        self.ours.append(out if reads else into)
        self.theirs.append(into if reads else out)
        return self.ours[-1]

    def _terminal(self) -> "socket.socket":
        ours, theirs = channel.pair()
        self.theirs.append(theirs.detach())
        return ours

    @staticmethod
    def _close(descriptors: list[int]) -> None:
        while descriptors:
            os.close(descriptors.pop())
