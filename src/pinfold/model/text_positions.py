"""Positions: in a command line, or in a settings file."""

from msgspec import Struct


class Span(Struct, frozen=True, array_like=True):
    """A stretch of a command line, in characters: `text[start:end]`."""

    start: int
    end: int


class Origin(Struct, frozen=True, array_like=True):
    """Where a setting was written."""

    layer: str
    """Which layer it belongs to: `managed`, `command line`, `user`, `project-local`, `project`, `default`."""
    file: str = ""
    """The file, or an empty string where there is none (a flag, a default)."""
    line: int = 0
    """The line in that file, counted from 1; 0 where there is none."""

    def __str__(self) -> str:
        if not self.file:
            return self.layer
        return f"{self.file}:{self.line}" if self.line else self.file
