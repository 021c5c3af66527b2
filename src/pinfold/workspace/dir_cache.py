"""Which directories need not be listed again, which are closed, and which no command in a pen can search.

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
- Root can list what others have closed, and its commands, without its powers, cannot: nothing can be mounted
  in there for them either. If root's scan listed it, the scan would find no change once its owner has opened
  it, and would not report it. So root lists no more than any other user.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

SETTLED = 3_000_000_000
"""Nanoseconds after which a directory's change time tells every later change."""

MOST_TEXT = 1 << 28
"""Bytes that the paths of all directories may take in memory: those of a million, where they are of use."""

Mark = tuple[int, int, int]
"""Device, inode and change time: while a directory has the same, it holds the same names."""


def mark_of(directory: str) -> Mark:
    """Of the directory itself: a link in its place has another. Raises OSError where nothing is."""
    return _mark(os.stat(directory, follow_symlinks=False))


def _mark(status: os.stat_result) -> Mark:
    return status.st_dev, status.st_ino, status.st_ctime_ns


@contextmanager
def listing(directory: str) -> Iterator[tuple[Mark | None, "Iterator[os.DirEntry[str]]"]]:
    """What is in it, without paths, and its mark, if that will tell every change from now on.

    Raises OSError where there is no directory, or a link to one, or one that others have closed.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if is_shut(status, descriptor):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)
        mark = _mark(status)
        lasting = mark if time.time_ns() - mark[2] >= SETTLED else None  # asked before it is listed
        with os.scandir(descriptor) as entries:
            yield lasting, entries
    finally:
        os.close(descriptor)


def is_closed(directory: str) -> bool:
    """Whether a directory that could not be listed is ours, so that a command of the same user can open it. A
    path that cannot even be looked at lies in such a directory."""
    try:
        return os.stat(directory, follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return True


def is_shut(status: os.stat_result, directory: int | str) -> bool:
    """Whether a directory is another user's, and a process with just our ids cannot search it."""
    if status.st_uid == os.geteuid() or status.st_mode & stat.S_IXOTH:
        return False
    if not status.st_mode & stat.S_IXGRP:  # which bounds those too whom a list of the directory's names
        return True
    return status.st_gid not in (os.getegid(), *os.getgroups()) and not _has_list(directory)


def _has_list(directory: int | str) -> bool:
    """Whether it says of more users and groups than one what they may (acl(5))."""
    try:
        return bool(os.getxattr(directory, "system.posix_acl_access"))
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.EOPNOTSUPP)


def is_out_of_reach(path: str) -> bool:
    """Whether it lies in a directory that is shut."""
    while (above := os.path.dirname(path)) != path:
        path = above
        try:
            if is_shut(os.stat(path), path):
                return True
        except OSError:
            continue
    return False
