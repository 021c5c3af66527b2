"""What a tree looks like, so that a change of it shows: names, kinds, modes, owners, times, contents."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

Snapshot = dict[str, tuple[object, ...]]


def snapshot(top: str, counts: Callable[[str], bool] = lambda _: True) -> Snapshot:
    """Everything below `top` that counts, and how it is."""
    return {path: _seen(path) for path in walk(top) if counts(path)}


def walk(top: str) -> Iterator[str]:
    """The tree's paths, parents first; links are not followed."""
    yield top
    for directory, below, files in os.walk(top):
        yield from (os.path.join(directory, name) for name in (*below, *files))


def changed(before: Snapshot, after: Snapshot) -> str | None:
    """The first path that is not as it was."""
    return next((path for path in sorted({*before, *after}) if before.get(path) != after.get(path)), None)


def _seen(path: str) -> tuple[object, ...]:
    status = os.lstat(path)
    kept = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_ino, status.st_mtime_ns)
    content: object = None
    if stat.S_ISREG(status.st_mode):
        with suppress(OSError), open(path, "rb") as file:
            content = file.read()
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    marks: tuple[str, ...] = ()
    with suppress(OSError):
        marks = tuple(os.listxattr(path, follow_symlinks=False))
    return (*kept, content, marks)
