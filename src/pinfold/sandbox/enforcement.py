"""What of a fence really stands: all of it, a part with the missing layers named, or none."""

from enum import StrEnum

from msgspec import Struct


class Layer(StrEnum):
    """What can be missing; settings accept a loss by these names."""

    FENCE = "fence"
    """Everything: there is no fence at all."""
    NAMESPACES = "namespaces"
    PROC = "proc"
    """A /proc of its own."""
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    UNIX_SOCKETS = "unix_sockets"
    """The machine's pathname sockets: no namespace closes them."""
    NAMES = "names"
    """Protected names that do not exist yet."""
    PROCESSES = "processes"
    MEMORY = "memory"


class Level(StrEnum):
    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"


class Gap(Struct, frozen=True):
    """A layer that does not stand."""

    layer: Layer
    why: str
    remedy: str = ""


class Enforcement(Struct, frozen=True):
    level: Level
    missing: tuple[Gap, ...] = ()

    def __str__(self) -> str:
        return ", ".join((self.level, *(f"without {gap.layer} ({gap.why})" for gap in self.missing)))


NOTHING = Enforcement(Level.NONE, (Gap(Layer.FENCE, "commands run as the user, with nothing around them"),))
