"""No sandbox: commands run as the user, behind the interface of `backend`. Its enforcement always says so.

A command that is cancelled, runs out of time or is running when the session closes is ended with its process
group. What left that group is not found; nor is what a command left running when it ended, for its group's
number may belong to another one by then. Both outlive the session, which is one of the things a pen is for.
"""

import errno
import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Exited, Stream
from pinfold.model.policy import SandboxPolicy
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import (
    NOTHING,
    CommandResult,
    Elevation,
    Found,
    Outside,
    RunningCommand,
    StartRequest,
    Survey,
    arguments_of,
)
from pinfold.sandbox.environment import READ_BY_SHELLS, USUAL_PATH
from pinfold.sandbox.pipes import Drain
from pinfold.sandbox.running_command import PipedCommand, Unstarted, set_size

_RESTORED = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}


class UnsandboxedCommand(PipedCommand):
    def __init__(
        self, request: StartRequest, drain: Drain, ended: Callable[["UnsandboxedCommand"], None]
    ) -> None:
        self.request = request
        self.drain = drain
        self.ended = ended
        self.reaping = threading.Lock()
        ours: list[int] = []
        theirs: list[int] = []
        try:
            if request.terminal:
                self.terminal = _open_terminal(ours, theirs, request.terminal)
                streams, feed = {self.terminal: Stream.STDOUT}, None
                self.process = _start(request, *theirs * 3)
            else:
                streams = self._outputs(ours, theirs)
                stdin, feed = request.streams.stdin, None
                if stdin is None and request.stdin is not None:
                    feed = (_pipe(ours, theirs, reads=False), request.stdin)
                    stdin = theirs[-1]
                self.process = _start(
                    request, theirs[0], theirs[1], subprocess.DEVNULL if stdin is None else stdin
                )
            try:
                ours.append(os.pidfd_open(self.process.pid))
                self._follow(streams, ours[-1], feed, request.timeout)
            except BaseException:
                self._kill()
                self.process.wait()
                raise
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)

    def _outputs(self, ours: list[int], theirs: list[int]) -> dict[int, Stream]:
        """Our ends of its outputs, as far as the caller has not handed over descriptors for them."""
        handed, streams = self.request.streams, dict[int, Stream]()
        for stream, descriptor in ((Stream.STDOUT, handed.stdout), (Stream.STDERR, handed.stderr)):
            if descriptor is not None:
                theirs.append(os.dup(descriptor))
            elif stream is Stream.STDERR and handed.joined:
                theirs.append(os.dup(theirs[-1]))
            else:
                streams[_pipe(ours, theirs)] = stream
        return streams

    def wait(self) -> CommandResult:
        return self._gathered(self.request.output, NOTHING)

    def violations(self) -> tuple[Violation, ...]:
        return ()

    def _read_end(self) -> Exited:
        with self.reaping:
            code = self.process.wait()
        exit_code, signalled = (code, None) if code >= 0 else (None, -code)
        return Exited(exit_code, signalled, cancelled=self.cancelled)

    def _kill(self) -> None:
        # Once the first process has been awaited, its number may belong to another.
        with self.reaping, suppress(ProcessLookupError):
            if self.process.returncode is None:
                try:
                    os.killpg(self.process.pid, signal.SIGKILL)
                except PermissionError:
                    raise ConfinementError(
                        "the command runs as another user and could not be ended"
                    ) from None

    def _leave(self, descriptors: list[int]) -> None:
        self.ended(self)
        self.drain.leave(descriptors)


def _pipe(ours: list[int], theirs: list[int], *, reads: bool = True) -> int:
    """A pipe of which the command gets the other end; ours reads or writes."""
    out, into = os.pipe2(os.O_CLOEXEC)
    ours.append(out if reads else into)
    theirs.append(into if reads else out)
    return ours[-1]


def _open_terminal(ours: list[int], theirs: list[int], size: tuple[int, int]) -> int:
    """A terminal of the command's own; ours is the side where keys are typed and what it draws is read."""
    window, terminal = os.openpty()
    ours.append(window)
    theirs.append(terminal)
    set_size(window, *size)
    return window


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _start(
    request: StartRequest, stdout: int, stderr: int, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    directory = request.streams.directory
    return subprocess.Popen(
        arguments_of(request, directory or 0),
        pass_fds=() if directory is None else (directory,),
        cwd=request.cwd,
        env=_environment(request),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=_last_steps(request),
    )


def _last_steps(request: StartRequest) -> Callable[[], None] | None:
    """What only the new process can do for itself. None if that is nothing, which makes it start sooner.

    - The standard input of a new session becomes its controlling terminal: Ctrl-C, `/dev/tty`, job control.
    - What the host ignores, the command does not: a host that a script started with `&` ignores Ctrl-C, and
      so would all that it starts. (Popen itself does this for the signals that Python ignores.)

    It runs between fork and exec, where other threads' locks may be held for good: system calls alone, and
    nothing to import.
    """
    from termios import TIOCSCTTY

    takes_terminal, umask = request.terminal is not None, request.umask
    ignored = [each for each in _RESTORED if signal.getsignal(each) is signal.SIG_IGN]
    if not takes_terminal and not ignored and umask is None:
        return None

    def take() -> None:
        for each in ignored:
            signal.signal(each, signal.SIG_DFL)
        if takes_terminal:
            fcntl.ioctl(0, TIOCSCTTY, 0)
        if umask is not None:
            os.umask(umask)

    return take


def _environment(request: StartRequest) -> dict[str, str]:
    given = os.environ if request.environment is None else request.environment
    kept = {name: value for name, value in given.items() if name not in READ_BY_SHELLS}
    return {**kept, "PATH": kept.get("PATH") or USUAL_PATH, **request.variables}


class UnsandboxedSession:
    """May be used from any thread."""

    def __init__(self) -> None:
        self.drain = Drain()
        self.lock = threading.Lock()
        self.closed = False
        self.running: set[UnsandboxedCommand] = set()

    def start(self, request: StartRequest) -> RunningCommand:
        if self.closed:
            raise ConfinementError("the session is closed")
        program = arguments_of(request)[0]
        try:
            command = UnsandboxedCommand(request, self.drain, self._forget)
        except (OSError, ValueError, TypeError) as error:
            return _not_started(request, program, error)
        with self.lock:
            self.running.add(command)
            closed = self.closed
        if closed:
            command.cancel()
        return command

    def _forget(self, command: UnsandboxedCommand) -> None:
        with self.lock:
            self.running.discard(command)

    def run(self, request: StartRequest) -> CommandResult:
        return self.start(request).wait()

    def hold(self, policy: SandboxPolicy, found: Found) -> None:
        """Does nothing: there is no sandbox to enforce it."""

    def catch_up(self) -> None:
        """There is no warden to tell anything."""

    def tend(self, idle_seconds: float) -> None:  # noqa: ARG002
        with self.lock:
            running = list(self.running)
        for command in running:
            with suppress(ConfinementError):  # the next round tries again
                command.expire()

    def has_processes(self) -> bool:
        with self.lock:
            return bool(self.running)

    def is_alive(self) -> bool:
        return not self.closed

    def require_free(self) -> None:
        """Its lock is held for moments."""

    def plan(self, policy: SandboxPolicy) -> str:  # noqa: ARG002
        return ""

    def change_roots(self, roots: Sequence[str]) -> None:
        """Does nothing: there is no sandbox to change."""

    def close(self) -> None:
        with self.lock:
            self.closed = True
            running = list(self.running)
        for command in running:
            with suppress(ConfinementError):  # the others are to end all the same
                command.cancel()
        self.drain.close()


def _not_started(
    request: StartRequest, program: str, error: OSError | ValueError | TypeError
) -> RunningCommand:
    """As a pen tells it: the place and the machine are no program's fault."""
    cwd = request.cwd
    code = (isinstance(error, OSError) and error.errno) or errno.EINVAL
    if not os.path.isdir(cwd) or not os.access(cwd, os.X_OK):
        raise ConfinementError(f"the directory {cwd!r} cannot be entered; nothing was run") from None
    if code in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        raise ConfinementError(f"no process could be started: {os.strerror(code)}; nothing was run") from None
    newline = "\r\n" if request.terminal else "\n"
    return Unstarted(program, code, NOTHING, newline)


class UnsandboxedBackend:
    def open_session(
        self,
        roots: Sequence[str],  # noqa: ARG002
        survey: Survey | None = None,  # noqa: ARG002
        outside: Outside | None = None,  # noqa: ARG002
        elevation: Elevation | None = None,  # noqa: ARG002
        scratch: str = "",  # noqa: ARG002
    ) -> UnsandboxedSession:
        return UnsandboxedSession()

    def block_renames(self) -> AbstractContextManager[None]:
        """There is no pen to keep."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is held."""
