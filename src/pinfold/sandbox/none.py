"""No fence: commands run as the user, through the same doors as in a pen. Its enforcement always says so.

What one command started is ended by its process group; a daemon that left the group is not found, which is one of
the things a pen is for.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence

from pinfold.model.errors import ConfinementError
from pinfold.sandbox.backend import Event, Exited, Request, Result, Stream, Survey, arguments_of
from pinfold.sandbox.drain import Drain
from pinfold.sandbox.enforcement import NOTHING
from pinfold.sandbox.pump import Pump


class UnfencedCommand:
    def __init__(self, request: Request, drain: Drain) -> None:
        if request.terminal:
            raise ConfinementError("a terminal is only to be had in a pen")
        self.request = request
        self.cancelled = False
        self.process = _start(request)
        process = self.process
        assert process.stdout and process.stderr
        streams = {os.dup(process.stdout.fileno()): Stream.STDOUT, os.dup(process.stderr.fileno()): Stream.STDERR}
        feed = None
        if process.stdin:
            feed = (os.dup(process.stdin.fileno()), request.stdin or b"")
            process.stdin.close()
        process.stdout.close()
        process.stderr.close()
        end = os.pidfd_open(process.pid)
        self.pump = Pump(streams, end, self._read_end, self._kill, drain.leave, feed, request.timeout)

    def events(self) -> Iterator[Event]:
        return self.pump.events()

    def wait(self) -> Result:
        return self.pump.wait(self.request.output, NOTHING)

    def cancel(self) -> None:
        self.cancelled = True
        self._kill()

    def write(self, data: bytes) -> None:
        raise ConfinementError("a terminal is only to be had in a pen")

    def resize(self, rows: int, columns: int) -> None:
        raise ConfinementError("a terminal is only to be had in a pen")

    def _read_end(self) -> Exited:
        code = self.process.wait()
        return Exited(code if code >= 0 else None, -code if code < 0 else None, cancelled=self.cancelled)

    def _kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _start(request: Request) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments_of(request),
        cwd=request.cwd,
        env=None if request.environment is None else dict(request.environment),
        stdin=subprocess.DEVNULL if request.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class UnfencedSession:
    def __init__(self) -> None:
        self.drain = Drain()
        self.groups: list[UnfencedCommand] = []

    def start(self, request: Request) -> UnfencedCommand:
        command = UnfencedCommand(request, self.drain)
        self.groups.append(command)
        return command

    def run(self, request: Request) -> Result:
        return self.start(request).wait()

    def close(self) -> None:
        for command in self.groups:
            command.cancel()
        self.drain.close()


class NoBackend:
    def open_session(self, roots: Sequence[str], survey: Survey | None = None) -> UnfencedSession:  # noqa: ARG002
        return UnfencedSession()

    def close(self) -> None:
        """Nothing is held."""
