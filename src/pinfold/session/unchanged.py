"""Which directories need not be listed again, and which are closed.

Facts that shape it:
- Listing 5,000 files takes some 10 ms, asking 1,000 directories for their change time 2 ms. A directory's
  change time moves with every name that is made, removed or renamed in it and, unlike the others, cannot be
  set back. So a directory that has not changed is not listed again.
- File systems keep that time in steps, some of 2 seconds: a directory that changed just before it was listed
  is listed again the next time.
- A command may put another directory, or a link, in the place of one between two looks at its path, and what
  is listed of the one would then be remembered of the other. So both looks are by one descriptor.
- Entries that are listed by a path have it in each of them: 15 kB, where a command makes it long and adds one
  character beyond Unicode's first 65,536. By a descriptor they have their names alone.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

SETTLED = 3_000_000_000
"""Nanoseconds after which a directory's change time tells every later change."""

MOST_TEXT = 1 << 28
"""Bytes that the paths of all directories may take in memory: those of a million, where they are of use."""

Mark = tuple[int, int, int]
"""Device, inode and change time: while a directory has the same, it holds the same names."""


def mark_of(directory: str | int) -> Mark:
    """Of the directory itself: a link in its place has another. Raises OSError where nothing is."""
    status = os.stat(directory, follow_symlinks=False) if isinstance(directory, str) else os.fstat(directory)
    return status.st_dev, status.st_ino, status.st_ctime_ns


@contextmanager
def listing(directory: str) -> Iterator[tuple[Mark | None, "Iterator[os.DirEntry[str]]"]]:
    """What is in it, without paths, and its mark, if that will tell every change from now on.

    Raises OSError where there is no directory, or a link to one.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mark = mark_of(descriptor)
        lasting = mark if time.time_ns() - mark[2] >= SETTLED else None  # asked before it is listed
        with os.scandir(descriptor) as entries:
            yield lasting, entries
    finally:
        os.close(descriptor)


def is_closed(directory: str) -> bool:
    """Whether one that could not be listed is ours, so that whoever runs as we do can open it. What cannot
    even be looked at lies in one that is."""
    try:
        return os.stat(directory, follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return True
