"""The steps of a plan: one message for each thing that is done to build a pen. Each prints as one line.

The host plans them. The builder and the spawner carry them out, and do nothing that is not listed here.
"""

from typing import Literal, TypeVar

from pinfold.sandbox.linux.protocol.message import WireMessage

Kind = Literal["directory", "file"]
"""Of a path. All that is no directory counts as a file: sockets and FIFOs are covered as files are."""


class LandlockRule(WireMessage):
    """What Landlock grants below a path. It refuses what no rule grants."""

    path: str
    access: tuple[str, ...]
    """Words: read, write, remove, make, refer, device."""


class Operation(WireMessage):
    """One step."""

    def __str__(self) -> str:
        shown = (repr(each) if isinstance(each, str) else str(_shown(each)) for each in self.values())
        return " ".join((type(self).__name__.lower(), *shown))


def _shown(value: object) -> object:
    if isinstance(value, WireMessage):
        return value.values()
    return tuple(map(_shown, value)) if isinstance(value, tuple) else value


Operations = tuple[Operation, ...]
AnyOperation = TypeVar("AnyOperation", bound=Operation)


def of_kind(operations: Operations, kind: type[AnyOperation]) -> list[AnyOperation]:
    """Those steps of a plan that are of a kind."""
    return [each for each in operations if isinstance(each, kind)]


class ReadOnlyRoot(Operation):
    """The machine's whole tree, every mount of it read-only."""


class Show(Operation):
    """A piece that the session's pens share: its /proc, its /dev, its /tmp."""

    piece: str
    path: str


class Cover(Operation):
    """A fresh, empty file system over a directory; `Seal` ends what may be put into it."""

    path: str


class Point(Operation):
    """Something to mount on, made inside a cover or a shared piece, never in the user's tree."""

    path: str
    kind: Kind


class Bind(Operation):
    """The machine's own tree at this path, with every mount below it."""

    path: str
    writable: bool


class BindAt(Operation):
    """A directory of the machine's at another path, to be written."""

    source: str
    path: str


class Pin(Operation):
    """A directory bound onto itself, so that it cannot be renamed."""

    path: str


class Fasten(Operation):
    """A link bound onto itself, so that it can neither be removed nor replaced."""

    path: str


class Protect(Operation):
    """Read-only, inside a writable root."""

    path: str


class Hide(Operation):
    """Something empty in its place."""

    path: str
    kind: Kind


class Reveal(Operation):
    """The machine's own, read-only, at a point inside a cover."""

    path: str


class Link(Operation):
    """A link made inside a cover."""

    path: str
    target: str


class Seal(Operation):
    """A cover becomes read-only."""

    path: str


class EnterRoot(Operation):
    """The tree built so far becomes the root, and the old one is gone."""


class Limit(Operation):
    """A resource limit, by the name of its RLIMIT."""

    resource: str
    value: int


class Group(Operation):
    """A cgroup for all of the pen's processes together; None is no limit."""

    memory: int | None
    processes: int | None


class DropPowers(Operation):
    """No capability, now or after any exec; no new privileges."""


class Landlock(Operation):
    rules: tuple[LandlockRule, ...]


class NoteReads(Operation):
    """The warden hears of opens that only read as well, and notes those of hidden things; and of every change
    that is denied. For learning."""


class Seccomp(Operation):
    profile: str
    watched: bool = False
    """Whether a warden answers the calls that make names and connections."""
    sockets: tuple[str, ...] = ()
    """Sockets of the machine that it lets commands connect to."""
    asks: bool = False
    """Whether a person can be asked for what it denies, while the call waits."""
    agents: tuple[str, ...] = ()
    """Those of these sockets that are an ssh agent's, by the user's environment or by the program that serves
    them."""
