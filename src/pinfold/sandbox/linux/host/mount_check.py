"""Whether the mounts that protect and hide things still stand where they were put.

Facts, measured on Linux 6.18:
- A mount on a file is lost when the host replaces that file, as editors and `git config` do (a new file,
  renamed over the old): inside, the new one is open. The same holds for a directory that is replaced.
- So before each command the things a pen protects and hides are compared with what was there when it was
  built; if one is another by now, the next pen is built anew. What runs in the old pen meanwhile sees the
  new file.
- The number of an inode says little: ext4 gives a deleted file's number to the next one. But a new inode
  has a new time of change, so only where that differs the time of birth is asked for, which costs more;
  where nobody knows it, the thing counts as another.
- Kernels before 6.13, and some file systems since, take the time of the last tick: what changed less than a
  tick ago may be replaced by what has the same time. Such a time is not relied on.

Accepted, and named in docs/sandbox.md: beyond `MOST` things nothing is compared, since it would cost every
command more than a microsecond for each.
"""

import os
from collections.abc import Iterable
from time import time_ns

from msgspec import Struct

from pinfold.kernel.files import birth

MOST = 500
TICK = 20_000_000
"""Nanoseconds; the longest that a kernel is built with is half of it."""
UNSURE = -1
"""No time of change: the time of birth is asked for."""


class Identity(Struct):
    number: tuple[int, int]
    """Device and inode."""
    changed: int
    """When it was last found to be the same: a directory changes with each name in it."""
    born: tuple[int, int] | None


Held = tuple[tuple[str, Identity | None], ...]


def hold(paths: Iterable[str]) -> Held:
    """What is at these paths now."""
    found = tuple((path, identity(path)) for path in paths)
    return found if len(found) <= MOST else ()


def is_held(held: Held) -> bool:
    """Whether it is still the same."""
    return all(_is_same(path, then) for path, then in held)


def identity(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
        return Identity((status.st_dev, status.st_ino), _sure(status), birth(path))
    except OSError:
        return None


def _is_same(path: str, then: Identity | None) -> bool:
    try:
        status = os.lstat(path)
        if then is None or then.number != (status.st_dev, status.st_ino):
            return False
        if then.changed != status.st_ctime_ns:
            if then.born is None or then.born != birth(path):
                return False
            then.changed = _sure(status)
        return True
    except OSError:
        return then is None


def _sure(status: os.stat_result) -> int:
    """A time of change that nothing which comes later can have."""
    return status.st_ctime_ns if status.st_ctime_ns < time_ns() - TICK else UNSURE
