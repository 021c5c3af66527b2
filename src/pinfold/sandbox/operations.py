"""The words of a plan: one frozen value for each thing that is done to build a pen.

Each prints as one line, and `as_data` is its plain form, a tuple that starts with the operation's name: the
keeper, which has the standard library alone, reads that. Whatever is not listed here is not done.
"""

from enum import StrEnum

from msgspec import Struct, to_builtins


class Kind(StrEnum):
    DIRECTORY = "directory"
    FILE = "file"
    """Whatever is no directory: sockets and FIFOs are covered as files are."""


class Place(Struct, frozen=True):
    path: str
    kind: Kind = Kind.DIRECTORY


class Rule(Struct, frozen=True, array_like=True):
    """What Landlock grants below a path. What no rule grants is refused."""

    path: str
    access: tuple[str, ...]
    """Words: read, write, remove, make, refer, device."""


class Operation(Struct, frozen=True, array_like=True, tag=str.lower):
    """One step. The tag is the class's name in lower case."""

    def __str__(self) -> str:
        name, *rest = as_data(self)
        return " ".join((str(name), *(repr(each) if isinstance(each, str) else str(each) for each in rest)))


class ReadOnlyRoot(Operation, frozen=True):
    """The machine's whole tree, every mount of it read-only."""


class Show(Operation, frozen=True):
    """A piece that the session's pens share: its /proc, its /dev, its /tmp."""

    piece: str
    path: str


class Cover(Operation, frozen=True):
    """A fresh, empty file system over a directory; `Seal` ends what may be put into it."""

    path: str


class Point(Operation, frozen=True):
    """Something to mount on, made inside a cover or a shared piece, never in the user's tree."""

    path: str
    kind: Kind


class Bind(Operation, frozen=True):
    """The machine's own tree at this path, with every mount below it."""

    path: str
    writable: bool


class Pin(Operation, frozen=True):
    """A directory bound onto itself, so that it cannot be renamed."""

    path: str


class Fasten(Operation, frozen=True):
    """A link bound onto itself, so that it can neither be removed nor replaced."""

    path: str


class Protect(Operation, frozen=True):
    """Read-only, inside a writable root."""

    path: str


class Hide(Operation, frozen=True):
    """Something empty in its place."""

    path: str
    kind: Kind


class Seal(Operation, frozen=True):
    """A cover becomes read-only."""

    path: str


class EnterRoot(Operation, frozen=True):
    """The tree built so far becomes the root, and the old one is gone."""


class Limit(Operation, frozen=True):
    """A resource limit, by the name of its RLIMIT."""

    resource: str
    value: int


class Group(Operation, frozen=True):
    """A cgroup for all of the pen's processes together; None is no limit."""

    memory: int | None
    processes: int | None


class DropPowers(Operation, frozen=True):
    """No capability, now or after any exec; no new privileges."""


class Landlock(Operation, frozen=True):
    rules: tuple[Rule, ...]


class NoteReads(Operation, frozen=True):
    """The warden hears of opens that only read as well, and notes those of hidden things; and of every change
    that is denied. For learning."""


class Seccomp(Operation, frozen=True):
    profile: str
    watched: bool = False
    """Whether a warden answers the calls that make names and connections."""
    sockets: tuple[str, ...] = ()
    """Sockets of the machine that it lets commands connect to."""
    asks: bool = False
    """Whether a person can be asked for what it denies, while the call waits."""
    agents: tuple[str, ...] = ()
    """Those of these sockets that are an ssh agent's, by the user's environment or by who serves them."""


def as_data(operation: Operation) -> tuple[object, ...]:
    """An operation as a tuple of plain values, its name first."""
    name, *rest = to_builtins(operation)
    return (name, *(_plain(value) for value in rest))


def _plain(value: object) -> object:
    return tuple(_plain(each) for each in value) if isinstance(value, list | tuple) else value
