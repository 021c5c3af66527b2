"""A command whose program could not be executed: it ends as a shell would end it, with 127 or 126."""

import errno
import os
from collections.abc import Iterator

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event, Exited, Output, Stream
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import CommandResult, Enforcement


class Unstarted:
    failure = ""
    left_running: tuple[str, ...] = ()

    def __init__(self, program: str, code: int, enforcement: Enforcement, newline: str = "\n") -> None:
        """`newline` is `\\r\\n` where a terminal was asked for, as one would have written it."""
        self.end = Exited(127 if code == errno.ENOENT else 126, None)
        self.message = os.fsencode(f"{program}: {os.strerror(code)}{newline}")
        self.enforcement = enforcement

    def events(self) -> Iterator[Event]:
        yield Output(Stream.STDERR, self.message)
        yield self.end

    def wait(self) -> CommandResult:
        return CommandResult(self.end.exit_code, None, b"", self.message, False, False, self.enforcement)

    def violations(self) -> tuple[Violation, ...]:
        return ()

    def cancel(self) -> None:
        """It has ended already."""

    def write(self, data: bytes) -> int:  # noqa: ARG002
        raise ConfinementError("this command has no terminal, or has ended")

    def resize(self, rows: int, columns: int) -> None:  # noqa: ARG002
        raise ConfinementError("this command has no terminal, or has ended")
