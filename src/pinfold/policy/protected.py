"""Names that commands may not write, although they lie in the workspace.

Each is a file that something on the host would run or obey later, without being asked: a git hook, an
editor's task, a shell's start-up file. The list is `data/protected.toml`, with the reason of each.

Facts about spellings: macOS and Windows file systems fold case; HFS+ passes over some code points
(U+200C and its kin); NTFS drops trailing dots and spaces, reads `name::$STREAM` as the name, and gives
`.git` the short name `git~1`. A name that is protected under one spelling is protected under all.
"""

from enum import StrEnum
from functools import lru_cache
from posixpath import dirname, join

from msgspec import Struct

from pinfold.policy.paths import contains

OWN = "your settings protect it"


class Reach(StrEnum):
    ANY = "any"
    """Wherever it stands in a root."""
    TOP = "top"
    """Only directly in a root."""


class Grant(StrEnum):
    NEVER = "never"
    """Nobody may let it through."""
    PERSON = "person"


class ProtectedName(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """A path of one or more components; what lies below it is protected with it."""
    why: str
    reach: Reach = Reach.ANY
    grant: Grant = Grant.PERSON


class _Data(Struct, frozen=True, forbid_unknown_fields=True):
    protected: tuple[ProtectedName, ...]


@lru_cache(maxsize=1)
def protected_names() -> tuple[ProtectedName, ...]:
    from tomllib import load

    from msgspec import convert

    with open(join(dirname(__file__), "data", "protected.toml"), "rb") as file:
        return convert(load(file), _Data).protected


def protected_by(path: str, roots: tuple[str, ...], entries: tuple[str, ...]) -> ProtectedName | None:
    """The protected name that an absolute path is, lies below, or would take along as its directory.

    `entries` are the policy's own: absolute paths, and bare names that hold at any depth.
    """
    for entry in entries:
        if entry.startswith("/") and (contains(entry, path) or contains(path, entry)):
            return ProtectedName(entry, OWN)
    own = tuple(entry for entry in entries if not entry.startswith("/"))
    for root in roots:
        if contains(root, path):
            found = _named(path[len(root) :], own)
            if found:
                return found
    return None


def _named(relative: str, own: tuple[str, ...]) -> ProtectedName | None:
    components = [folded(component) for component in relative.split("/") if component not in ("", ".")]
    for protected, parts, at_top in _compiled(own):
        for start in (0,) if at_top else range(len(components)):
            given = components[start : start + len(parts)]
            # Shorter means a directory that holds the name: moved aside or replaced, it takes it along.
            if (
                given
                and given == parts[: len(given)]
                and (len(given) == len(parts) or start + len(given) == len(components))
            ):
                return protected
    return None


@lru_cache(maxsize=16)
def _compiled(own: tuple[str, ...]) -> tuple[tuple[ProtectedName, list[str], bool], ...]:
    names = (*protected_names(), *(ProtectedName(entry, OWN) for entry in own))
    return tuple(
        (name, [folded(part) for part in name.name.split("/")], name.reach is Reach.TOP) for name in names
    )


# Code points that HFS+ passes over when it compares names, and others that draw nothing.
PASSED_OVER = dict.fromkeys(
    (0x00AD, 0x200B, *range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065),
     *range(0x206A, 0x2070), 0xFEFF)
)  # fmt: skip


def folded(component: str) -> str:
    """One spelling for all that a file system might take for the same name."""
    name = component.translate(PASSED_OVER).casefold().partition(":")[0].rstrip(". ")
    return ".git" if name == "git~1" else name or component
