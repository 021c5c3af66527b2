"""Walking a held directory, and matching what is in it.

Facts: RE2 matches in time linear in the text, whatever the expression; it has no look-around and no
back-references. A walk by descriptors meets no link that it would follow.
"""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase

from pinfold.kernel.files import STRICT, openat2

PASSED_OVER = frozenset({".git", "node_modules", ".venv", "__pycache__", ".tox"})
"""Unless they are named."""
DEEPEST = 64
LONGEST_GLOB = 1_000
MOST_PARTS = 64
ANY = "**"


def walk(directory: int, above: str = "", depth: int = 0) -> Iterator[tuple[str, int, str, os.stat_result]]:
    """Every name below a directory, in order: its path, the directory that it is in, its name, what it is."""
    for name in sorted(os.listdir(directory)):
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        path = f"{above}{name}"
        yield path, directory, name, status
        if not stat.S_ISDIR(status.st_mode) or name in PASSED_OVER or depth == DEEPEST:
            continue
        try:
            below = openat2(directory, name, os.O_RDONLY | os.O_DIRECTORY, resolve=STRICT)
        except OSError:
            continue
        try:
            yield from walk(below, f"{path}/", depth + 1)
        finally:
            os.close(below)


def matches(pattern: str, path: str) -> bool:
    """A glob over a whole relative path: `**` is any number of directories, `*` stays within one."""
    wanted, parts = pattern.split("/"), path.split("/")
    # Which of the first parts of the pattern have been matched by what was read so far.
    reached = _past_any(wanted, {0})
    for part in parts:
        found = {place for place in reached if place < len(wanted) and wanted[place] == ANY}
        found |= {place + 1 for place in reached if place < len(wanted) and fnmatchcase(part, wanted[place])}
        reached = _past_any(wanted, found)
    return len(wanted) in reached


def _past_any(wanted: list[str], reached: set[int]) -> set[int]:
    """`**` may also be nothing."""
    for place in range(len(wanted)):
        if place in reached and wanted[place] == ANY:
            reached.add(place + 1)
    return reached
