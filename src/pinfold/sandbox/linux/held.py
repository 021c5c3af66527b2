"""Whether the mounts that protect and hide things still stand where they were put.

Facts (reference/kernel.md, "Mounts"):
- A mount on a file is lost when the host replaces that file, as editors and `git config` do (a new file,
  renamed over the old): inside, the new one is open. The same holds for a directory that is replaced.
- So before each command the things a pen protects and hides are compared with what was there when it was
  built; if one is another by now, the next pen is built anew. What runs in the old pen meanwhile sees the
  new file.

Accepted: beyond `MOST` things nothing is compared, since it would cost every command more than a
microsecond for each.
"""

import os
from collections.abc import Iterable

MOST = 500

Identity = tuple[int, int]
Held = tuple[tuple[str, Identity | None], ...]


def hold(paths: Iterable[str]) -> Held:
    """What is at these paths now."""
    found = tuple((path, identity(path)) for path in paths)
    return found if len(found) <= MOST else ()


def is_held(held: Held) -> bool:
    """Whether it is still the same."""
    return all(identity(path) == then for path, then in held)


def identity(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
