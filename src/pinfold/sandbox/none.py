"""No fence: commands run as the user, through the same doors as in a pen. Its enforcement always says so.

What one command started is ended by its process group; a daemon that left the group is not found, which is
one of the things a pen is for.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event, Exited, Stream
from pinfold.model.policy import SandboxPolicy
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import Found, Request, Result, Running, Survey, arguments_of
from pinfold.sandbox.drain import Drain
from pinfold.sandbox.enforcement import NOTHING
from pinfold.sandbox.pump import Pump
from pinfold.sandbox.unstarted import Unstarted

NO_TERMINAL = "a terminal is only to be had in a pen"


class UnfencedCommand:
    def __init__(self, request: Request, drain: Drain) -> None:
        self.request = request
        self.cancelled = False
        streams: dict[int, Stream] = {}
        theirs: list[int] = []
        for stream in Stream:
            ours, end = os.pipe2(os.O_CLOEXEC)
            streams[ours] = stream
            theirs.append(end)
        feed = None
        if request.stdin is not None:
            end, ours = os.pipe2(os.O_CLOEXEC)
            feed = (ours, request.stdin)
            theirs.append(end)
        try:
            self.process = _start(request, *theirs)
        except OSError:
            for ours in (*streams, *([feed[0]] if feed else [])):
                os.close(ours)
            raise
        finally:
            for end in theirs:
                os.close(end)
        told = os.pidfd_open(self.process.pid)
        self.pump = Pump(streams, told, self._read_end, self._kill, drain.leave, feed, request.timeout)

    def events(self) -> Iterator[Event]:
        return self.pump.events()

    def wait(self) -> Result:
        return self.pump.wait(self.request.output, NOTHING)

    def violations(self) -> tuple[Violation, ...]:
        return ()

    def cancel(self) -> None:
        self.cancelled = True
        self.pump.end_command()

    def write(self, data: bytes) -> int:  # noqa: ARG002
        raise ConfinementError(NO_TERMINAL)

    def resize(self, rows: int, columns: int) -> None:  # noqa: ARG002
        raise ConfinementError(NO_TERMINAL)

    def _read_end(self) -> Exited:
        code = self.process.wait()
        return Exited(code if code >= 0 else None, -code if code < 0 else None, cancelled=self.cancelled)

    def _kill(self) -> None:
        # Once the first process is awaited its number may be somebody else's.
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


def _start(
    request: Request, stdout: int, stderr: int, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments_of(request),
        cwd=request.cwd,
        env=_environment(request),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _environment(request: Request) -> dict[str, str] | None:
    if request.environment is None and not request.variables:
        return None
    given = os.environ if request.environment is None else request.environment
    return {**given, **request.variables}


class UnfencedSession:
    def __init__(self) -> None:
        self.drain = Drain()
        self.groups: list[UnfencedCommand] = []

    def start(self, request: Request) -> Running:
        if request.terminal:
            raise ConfinementError(NO_TERMINAL)
        try:
            command = UnfencedCommand(request, self.drain)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            if not os.path.isdir(request.cwd):
                raise ConfinementError(f"the directory {request.cwd!r} cannot be entered") from None
            return Unstarted(arguments_of(request)[0], error.errno or 0, NOTHING)
        self.groups.append(command)
        return command

    def run(self, request: Request) -> Result:
        return self.start(request).wait()

    def hold(self, policy: SandboxPolicy, found: Found) -> None:
        """There is no fence to hold it."""

    def close_idle(self, seconds: float) -> int:  # noqa: ARG002
        return 0

    def plan(self, policy: SandboxPolicy) -> str:  # noqa: ARG002
        return ""

    def change_roots(self, roots: Sequence[str]) -> None:
        """There is no fence to move."""

    def close(self) -> None:
        for command in self.groups:
            command.cancel()
        self.drain.close()


class NoBackend:
    def open_session(self, roots: Sequence[str], survey: Survey | None = None) -> UnfencedSession:  # noqa: ARG002
        return UnfencedSession()

    def close(self) -> None:
        """Nothing is held."""
