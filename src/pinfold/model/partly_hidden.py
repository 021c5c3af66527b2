"""Directories that are hidden but for some of what is in them: an entry of `SandboxPolicy.hidden` says which.

`/home/u/.claude/!(skills|projects/*/memory)` hides all of `/home/u/.claude` but its `skills` and the `memory`
of each of its `projects`. Two such entries for one directory show what both show. An entry for the directory
itself hides all of it. So the union of two policies' entries is never wider than either.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

EXCEPT, EITHER, END = "/!(", "|", ")"
WILD = "*?["


class PartlyHidden(NamedTuple):
    directory: str
    shown: tuple[tuple[str, ...], ...]
    """Each the components of a path below the directory."""

    def shows(self, path: str) -> bool:
        """Whether an absolute path is one of those that are shown, or lies in one."""
        if not path.startswith(f"{self.directory}/"):
            return False
        names = path[len(self.directory) + 1 :].split("/")
        return any(len(names) >= len(shown) and all(map(fits, names, shown)) for shown in self.shown)


def fits(name: str, pattern: str) -> bool:
    """Whether a name is what a component says. Its wildcards match no dot at the start of a name."""
    if not any(c in pattern for c in WILD):
        return name == pattern
    return not name.startswith(".") and fnmatchcase(name, pattern)


def hidden_except(directory: str, shown: Iterable[str]) -> str:
    """The entry that hides all of a directory but these paths in it."""
    return f"{directory}{EXCEPT}{EITHER.join(shown)}{END}"


@cache
def partly_hidden(entry: str) -> PartlyHidden | None:
    """What an entry of this kind says; None for any other."""
    directory, mark, rest = entry.partition(EXCEPT)
    if not (mark and directory.startswith("/") and rest.endswith(END)):
        return None
    shown = (tuple(path.split("/")) for path in rest.removesuffix(END).split(EITHER))
    return PartlyHidden(directory, tuple(names for names in shown if all(names) and ".." not in names))
