"""One command in a pen, as the host sees it: its start and its end.

To start one, the host opens its descriptors, tags the spawner and sends the request; it undoes that if a step
fails.

INVARIANT: between the two prlimits the spawner starts exactly this command, so that all of its processes,
and no other's, carry its tag. `Pen.lock` holds that together.
"""

import fcntl
import os
import signal
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Exited, Stream
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import CommandResult, StartRequest
from pinfold.sandbox.linux.host.pen import Pen
from pinfold.sandbox.linux.protocol.command import EXITED, SIGNALLED, STATUS
from pinfold.sandbox.pipes import Drain
from pinfold.sandbox.running_command import PipedCommand, Unstarted

if TYPE_CHECKING:
    import socket


import errno
from contextlib import suppress
from resource import prlimit
from typing import TYPE_CHECKING

from pinfold.sandbox.backend import RunningCommand, arguments_of
from pinfold.sandbox.linux.host.pen import PenGone, RootMoved
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.command import (
    FAILED,
    NO_DIRECTORY,
    RLIMIT_RTTIME,
    STARTED,
    StartCommand,
)
from pinfold.sandbox.linux.protocol.operations import Bind, Limit, of_kind

if TYPE_CHECKING:
    import socket


TIOCGPTPEER = 0x5441
PARTLY = "the sandbox died while the command {}; the command may have partly completed"


class CommandSession(Protocol):
    """What a command needs of the session that it is one of."""

    closed: bool
    drain: Drain
    running: set["PennedCommand"]
    """Running commands: each is among them until its end was reported."""

    def next_tag(self, pen: Pen, request: StartRequest) -> int: ...

    def kill(self, tag: int) -> None:
        """Ends every process of one command."""


class PennedCommand(PipedCommand):
    """INVARIANT: what the status pipe says comes from a process that hostile commands share a uid with: two
    numbers of fixed size are read from it, and nothing else is believed."""

    def __init__(
        self,
        session: CommandSession,
        pen: Pen,
        tag: int,
        request: StartRequest,
        streams: dict[int, Stream],
        status: int,
        feed: tuple[int, bytes | int] | None,
    ) -> None:
        self.session = session
        self.pen = pen
        self.tag = tag
        self.request = request
        self.refused: dict[tuple[str, str], Violation] = {}
        self.terminal = next(iter(streams)) if request.terminal else None
        self._follow(streams, status, feed, request.timeout)

    def began(self) -> None:
        self.pen.began()
        self.session.running.add(self)
        self.is_begun = True

    def wait(self) -> CommandResult:
        result = self._gathered(self.request.output, self.pen.enforcement)
        violations = self.violations()
        return replace(result, violations=violations) if violations else result

    def violations(self) -> tuple[Violation, ...]:
        # A fork of the host would read what its warden tells of the other's commands.
        for violation in self.pen.warden.of(self.tag) if self.is_own else ():
            self.refused[violation.operation, violation.path] = violation
        return tuple(self.refused.values())

    def _kill(self) -> None:
        self.session.kill(self.tag)
        self.pen.warden.settle()

    def _nudge(self) -> None:
        self.pen.wake()

    def _leave(self, descriptors: list[int]) -> None:
        self.pen.ended()
        self.session.running.discard(self)
        self.session.drain.leave(descriptors)

    def _read_end(self) -> Exited | None:
        data = os.read(self.status, STATUS.size)
        if len(data) != STATUS.size:
            if self.cancelled or self.session.closed:
                return Exited(None, signal.SIGKILL, cancelled=True)
            raise ConfinementError(PARTLY.format("was running"))
        kind, value = STATUS.unpack(data)
        if kind == EXITED:
            return Exited(value & 0xFF, None, cancelled=self.cancelled)
        if kind == SIGNALLED:
            return Exited(None, value & 0x7F, cancelled=self.cancelled)
        return None


def receive_terminal(channel: "socket.socket") -> int:
    """The master of the terminal that the spawner made.

    A side that was never open does not hang up, and a command may be killed before it opens its own: so the
    host opens it once, here.
    """
    channel.settimeout(10)
    import socket

    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if len(descriptors) != 1:
        raise ConfinementError("the sandbox could not open a terminal for the command")
    (master,) = descriptors
    os.set_inheritable(master, False)
    try:
        os.close(fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        os.close(master)
        raise
    return master


class Start:
    def __init__(
        self, session: CommandSession, pen: Pen, request: StartRequest, left_running: tuple[str, ...] = ()
    ) -> None:
        self.session = session
        self.pen = pen
        self.request = request
        self.left_running = left_running
        """The violations of the command's result."""
        self.ours: list[int] = []
        self.theirs: list[int] = []

    def send(self, environment: dict[str, str]) -> RunningCommand:
        try:
            return self._send(environment)
        finally:
            self._close(self.theirs)
            self._close(self.ours)

    def _send(self, environment: dict[str, str]) -> RunningCommand:
        request = self.request
        try:
            status = self._pipe(reads=True)
            terminal = self._terminal() if request.terminal else None
            feed = None if terminal else self._input()
            streams = {} if terminal else self._outputs()
        except OSError as error:
            raise ConfinementError(
                f"the command's streams could not be opened: {error.strerror}; nothing was run"
            ) from None
        tag, kind, value = self._tagged(environment, status)
        if kind != STARTED:
            return self._not_started(kind, value)
        try:
            if terminal:
                streams[self._master(terminal)] = Stream.STDOUT
            given = None if feed is None or request.stdin is None else (feed, request.stdin)
            command = PennedCommand(self.session, self.pen, tag, request, streams, status, given)
        except BaseException:
            self.session.kill(tag)  # no caller gets it
            raise
        command.left_running = self.left_running
        self.ours.clear()  # they are the command's from here on
        command.began()
        return command

    def _input(self) -> int | None:
        """Our end of its standard input, if there is something to be fed to it."""
        handed = self.request.streams.stdin
        if handed is None:
            return self._pipe(reads=False) if self.request.stdin is not None else None
        self._hand(handed)
        return None

    def _outputs(self) -> dict[int, Stream]:
        """Our ends of its outputs, as far as the caller has not handed over descriptors for them."""
        handed, ours = self.request.streams, dict[int, Stream]()
        for stream, descriptor in ((Stream.STDOUT, handed.stdout), (Stream.STDERR, handed.stderr)):
            if descriptor is not None:
                self._hand(descriptor)
            elif stream is Stream.STDERR and handed.joined:
                self._hand(self.theirs[-1])
            else:
                ours[self._pipe(True)] = stream
        if handed.directory is not None:
            self._hand(handed.directory)
        return ours

    def _hand(self, descriptor: int) -> None:
        self.theirs.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3))

    def _master(self, terminal: "socket.socket") -> int:
        try:
            with terminal:
                self.ours.append(receive_terminal(terminal))
        except (OSError, ConfinementError) as error:
            raise ConfinementError(
                f"no terminal came from the sandbox: {error}; the command was ended"
            ) from None
        return self.ours[-1]

    def _tagged(self, environment: dict[str, str], status: int) -> tuple[int, int, int]:
        """Sends the request while the spawner carries the command's tag; that, and the spawner's answer."""
        arguments = tuple(arguments_of(self.request))
        with self.pen.lock:
            tag = self.session.next_tag(self.pen, self.request)
            try:
                self.pen.signal(signal.SIGCONT)
                self._tag(tag)
                told = None if environment == self.pen.last_environment else environment
                message = StartCommand(
                    arguments,
                    self.request.cwd,
                    told,
                    self.request.terminal,
                    self._has_stdin,
                    self.request.umask,
                )
                # An interrupted caller (Ctrl-C) does not know whether the spawner was told.
                self.pen.last_environment = None
                channel.send(self.pen.control, message, tuple(self.theirs))
                self.pen.last_environment = environment
            except (ProcessLookupError, channel.ChannelClosed):
                raise PenGone("the sandbox has ended; nothing was run") from None
            except (OSError, ValueError) as error:
                raise ConfinementError(f"the sandbox cannot be reached: {error}; nothing was run") from None
            self._close(self.theirs)
            try:
                answer = os.read(status, STATUS.size) if self.pen.answers(status) else b""
            except BaseException:
                # Interrupted, as by Ctrl-C: no caller gets this command, so it is not left running.
                self.pen.answers(status)
                self._untag(tag)
                self.session.kill(tag)
                raise
            self._untag(tag)
        if len(answer) != STATUS.size:
            # The request was taken: a command that kills its spawner at once is not to be run a second time.
            self.session.kill(tag)
            with suppress(ProcessLookupError):
                self.pen.signal(signal.SIGKILL)
            raise ConfinementError(PARTLY.format("was starting"))
        return tag, *STATUS.unpack(answer)

    @property
    def _has_stdin(self) -> bool:
        return self.request.stdin is not None or self.request.streams.stdin is not None

    def _tag(self, tag: int) -> None:
        prlimit(self.pen.pid, RLIMIT_RTTIME, (tag, tag))

    def _untag(self, tag: int) -> None:
        with suppress(ProcessLookupError):
            self.pen.signal(0)  # is it still there? A limit is set by number
            self._tag(tag - 1)

    def _not_started(self, kind: int, value: int) -> RunningCommand:
        if self.pen.warden.has_ended():
            raise PenGone("the warden of the pen is gone; nothing was run")  # calls that it answers fail
        why = os.strerror(value)
        if kind == NO_DIRECTORY:
            # A mount goes along where another pen of the session moves the directory that it is on.
            here = self.request.cwd
            is_bound = any(f"{here}/".startswith(f"{each.path}/") for each in self._binds)
            is_moved = value == errno.ENOENT and is_bound and os.path.isdir(here)
            raise (RootMoved if is_moved else ConfinementError)(
                f"the sandbox cannot enter the directory `{self.request.cwd}`: {why}; "
                "start in a project, or add it with `--project`"
            )
        if kind != FAILED or value in (errno.EAGAIN, errno.ENOMEM):
            why += self._bound(value)
            raise ConfinementError(f"the session can start no more processes: {why}; nothing was run")
        newline = "\r\n" if self.request.terminal else "\n"
        return Unstarted(arguments_of(self.request)[0], value, self.pen.enforcement, newline)

    @property
    def _binds(self) -> list[Bind]:
        return of_kind(self.pen.plan.operations, Bind)

    def _bound(self, error: int) -> str:
        """The policy's limit that ended it, as far as that can be known."""
        bounds = {errno.ENOMEM: ("data", "memory", " bytes"), errno.EAGAIN: ("nproc", "processes", "")}
        resource, setting, unit = bounds.get(error, ("", "", ""))
        limits = of_kind(self.pen.plan.operations, Limit)
        found = next((each.value for each in limits if each.resource == resource), None)
        return "" if found is None else f"; `limits.{setting}` is {found:,}{unit}"

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
