"""What the tools give besides their text: an object, whose JSON Schema a client is told.

Each tool gives its own object, or a `DeniedOutput` that says why not and what to do next.
"""

from typing import Any

import msgspec
from msgspec import Struct


class ViolationOutput(Struct):
    """One thing that a command tried and was denied."""

    operation: str
    path: str
    rule: str
    why: str
    program: str
    code: str
    times: int
    remedy: str


class CommandOutput(Struct, rename="camel"):
    """How a command ended, and what it wrote."""

    exit_code: int | None
    """None where a signal ended it."""
    signal: int | None
    stdout: str
    stderr: str
    timed_out: bool
    cancelled: bool
    truncated: bool
    sandboxed: bool
    violations: tuple[ViolationOutput, ...]
    left_running: tuple[str, ...] = ()
    needed: dict[str, Any] | None = None
    """What it would have needed not to fail."""


class ProcessOutput(Struct, rename="camel"):
    """A background process: what it wrote since a cursor, and whether it runs."""

    id: str
    running: bool
    output: str
    """Standard output and error as they came."""
    cursor: int
    """The `since` of the next call."""
    missed: int
    """Bytes before `output` that are not kept any more."""
    has_more: bool
    exit_code: int | None
    signal: int | None
    timed_out: bool
    sandboxed: bool
    violations: tuple[ViolationOutput, ...]
    """Once it has ended."""


class InputTaken(Struct):
    """What a background process took of a text."""

    id: str
    characters: int


class FileOutput(Struct):
    text: str
    encoding: str
    newline: str
    first_line: int
    lines: int
    """How many lines the whole file has."""


class FileWritten(Struct):
    path: str
    created: bool


class ListedFile(Struct):
    path: str
    kind: str = ""
    size: int = 0


class FilesListed(Struct):
    files: tuple[ListedFile, ...]
    total: int


class FoundLine(Struct):
    path: str
    line: int
    text: str


class LinesFound(Struct):
    hits: tuple[FoundLine, ...]
    total: int


class ReasonOutput(Struct):
    step: str
    message: str
    verdict: str
    rule: str | None
    span: tuple[int, int] | None
    where: str | None
    remedy: str | None


class DecisionOutput(Struct):
    decision: str
    sandboxed: bool
    reasons: tuple[ReasonOutput, ...]


class PermissionGiven(Struct):
    given: tuple[str, ...]


class DeniedOutput(Struct):
    """Why nothing was done, and what to do next."""

    kind: str
    message: str
    next: str = ""
    verdict: str = ""
    step: str = ""
    rule: str = ""
    where: str = ""
    remedy: str = ""
    path: str = ""
    answer: dict[str, Any] | None = None
    given: tuple[str, ...] = ()


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of what a tool gives: its own object or a denial."""
    either, parts = msgspec.json.schema_components([kind, DeniedOutput], ref_template="#/$defs/{name}")
    return {"type": "object", "anyOf": list(either), "$defs": parts}
