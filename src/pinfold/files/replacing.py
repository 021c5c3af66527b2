"""A file replaced as a whole, in place of the one that was looked at.

Facts that shape it:
- A file is replaced by renaming a new one over it, so that nobody ever reads half of it. The new one has the
  old one's mode and owner; it has a name of its own for the moment between link and rename.
- A file with other names (hard links) would lose them by that, or would be changed under all of them, some
  of which may lie outside: it is refused.
- Much may be written, and the disk be waited for: only what gives the new file its name is done while others
  keep still.
- An O_TMPFILE gets its name by /proc/self/fd/N and AT_SYMLINK_FOLLOW, without any power.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager

from pinfold.files.ground import Spot, require_file
from pinfold.kernel.files import AT_FDCWD, AT_SYMLINK_FOLLOW, RENAME_NOREPLACE, linkat, renameat2
from pinfold.model.errors import FileRefused

SAME = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_mode", "st_uid", "st_gid", "st_nlink")
"""What of a file changes when another takes its place, or when somebody writes into it, opens or closes it to
others, or gives it another name."""

Still = Callable[[], AbstractContextManager[None]]
"""Keeps a spot where it was judged while a name is made there. Raises FileRefused if it is not there."""


def put(spot: Spot, path: str, data: bytes, before: os.stat_result | None, still: Still) -> None:
    """Puts a new file at a spot, in place of the one that was looked at, or of none."""
    if before is not None:
        require_file(before, path)
        require_one_name(before, path)
    try:
        _replace(spot, data, before, still)
    except OSError as error:
        raise failed(error, path) from None


def _replace(spot: Spot, data: bytes, before: os.stat_result | None, still: Still) -> None:
    passing = f".{spot.name[:60]}.{os.urandom(6).hex()}"
    made, is_named = _new_file(spot.directory, passing)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(made, view) :]
        if before is not None:
            _keep(made, before)
        os.fsync(made)
        with still():
            if not is_named:
                linkat(AT_FDCWD, f"/proc/self/fd/{made}", spot.directory, passing, AT_SYMLINK_FOLLOW)
                is_named = True
            if not _is_same(spot.status(), before):
                raise OSError(errno.EAGAIN, "somebody else was there meanwhile")
            flags = RENAME_NOREPLACE if before is None else 0
            renameat2(spot.directory, passing, spot.directory, spot.name, flags)
            is_named = False
    finally:
        if is_named:
            os.unlink(passing, dir_fd=spot.directory)
        os.close(made)


def _new_file(directory: int, name: str) -> tuple[int, bool]:
    """A new file, and whether it has its name already: not every file system has files without one."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(".", flags | os.O_TMPFILE, 0o666, dir_fd=directory), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
            raise
    return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory), True


def _is_same(now: os.stat_result | None, before: os.stat_result | None) -> bool:
    if now is None or before is None:
        return now is before
    return all(getattr(now, fact) == getattr(before, fact) for fact in SAME)


def _keep(made: int, before: os.stat_result) -> None:
    mine = os.fstat(made)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(made, before.st_uid, before.st_gid)
    os.fchmod(made, stat.S_IMODE(before.st_mode))


def require_one_name(status: os.stat_result, path: str) -> None:
    if status.st_nlink > 1:
        said = f"{path} has {status.st_nlink - 1} other names (hard links), which it would not keep"
        raise FileRefused("hard_link", path, said, "copy it, or use a command")


def failed(error: OSError, path: str) -> FileRefused:
    if error.errno == errno.EAGAIN:
        return FileRefused("swapped", path, f"{path} changed while it was written", "read it again")
    return FileRefused("failed", path, f"{path}: {error.strerror}", "")
