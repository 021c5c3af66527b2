"""Replaces a file as a whole, in place of the one that was looked at.

Facts that shape it:
- A file is replaced by renaming a new one over it, so that no process ever reads half of it. The new one gets
  the old one's mode, owner, access list and notes (user.*). It has a name of its own for the moment between
  link and rename.
- If a file has an access list, the group's bits of its mode limit every entry of the list: with the mode
  alone its group would get as much. A new file may get a list of its directory's.
- A write into a set-user-ID or set-group-ID file clears that bit. So does a new file in its place.
- A file with other names (hard links) would lose them by that, or would be changed under all of them, some
  of which may lie outside: it is refused.
- Writing much may wait for the disk: pens are kept still only while the new file gets its name.
- An O_TMPFILE gets its name by /proc/self/fd/N and AT_SYMLINK_FOLLOW, without any capability.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager

from pinfold.files.held_dirs import HeldName, require_file
from pinfold.kernel.files import AT_FDCWD, AT_SYMLINK_FOLLOW, RENAME_NOREPLACE, linkat, renameat2
from pinfold.model.errors import FileRefused

SAME = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_mode", "st_uid", "st_gid", "st_nlink")
"""What changes when a file is replaced or written, or gets another mode or name."""
ACCESS_LIST, NOTES = "system.posix_acl_access", "user."
NO_ATTRIBUTES = (errno.EOPNOTSUPP, errno.ENOSYS)

HoldStill = Callable[[], AbstractContextManager[None]]
"""Keeps a directory at its judged path while a name is made in it. Raises FileRefused if it has moved."""


def replace_file(
    spot: HeldName, path: str, data: bytes, before: os.stat_result | None, still: HoldStill
) -> None:
    """Puts a new file in place of the one that was looked at, or where none was."""
    if before is not None:
        require_file(before, path)
        require_one_name(before, path)
    try:
        _replace(spot, data, before, still)
    except OSError as error:
        raise failed(error, path) from None


def _replace(spot: HeldName, data: bytes, before: os.stat_result | None, still: HoldStill) -> None:
    passing = f".{spot.name[:60]}.{os.urandom(6).hex()}"
    # Until it has the old one's rights, no other user may read it.
    made, is_named = _new_file(spot.directory, passing, 0o666 if before is None else 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(made, view) :]
        if before is not None:
            _keep(spot, made, before)
        os.fsync(made)
        with still():
            if not is_named:
                linkat(AT_FDCWD, f"/proc/self/fd/{made}", spot.directory, passing, AT_SYMLINK_FOLLOW)
                is_named = True
            if not _is_same(spot.status(), before):
                raise OSError(errno.EAGAIN, "another file is there now")
            flags = RENAME_NOREPLACE if before is None else 0
            renameat2(spot.directory, passing, spot.directory, spot.name, flags)
            is_named = False
    finally:
        if is_named:
            os.unlink(passing, dir_fd=spot.directory)
        os.close(made)


def _new_file(directory: int, name: str, mode: int) -> tuple[int, bool]:
    """A new file, and whether it has its name already: not every file system supports nameless files."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(".", flags | os.O_TMPFILE, mode, dir_fd=directory), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
            raise
    return os.open(name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=directory), True


def _is_same(now: os.stat_result | None, before: os.stat_result | None) -> bool:
    if now is None or before is None:
        return now is before
    return all(getattr(now, fact) == getattr(before, fact) for fact in SAME)


def _keep(spot: HeldName, made: int, before: os.stat_result) -> None:
    mine = os.fstat(made)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(made, before.st_uid, before.st_gid)
    there = f"/proc/self/fd/{spot.directory}/{spot.name}"
    kept = {name: os.getxattr(there, name, follow_symlinks=False) for name in _attributes(there)}
    for name in _attributes(made) - kept.keys():
        os.removexattr(made, name)
    for name, value in kept.items():
        os.setxattr(made, name, value)
    os.fchmod(made, stat.S_IMODE(before.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))


def _attributes(file: int | str) -> set[str]:
    """Attributes for access and for programs' notes, but not those for what the file may do when it runs."""
    try:
        found = os.listxattr(file, follow_symlinks=isinstance(file, int))
    except OSError as error:
        if error.errno in NO_ATTRIBUTES:
            return set()
        raise
    return {name for name in found if name == ACCESS_LIST or name.startswith(NOTES)}


def require_one_name(status: os.stat_result, path: str) -> None:
    if status.st_nlink > 1:
        said = f"{path} has {status.st_nlink - 1} other hard links, which a replaced file would lose"
        raise FileRefused("hard_link", path, said, "replace it with a copy of itself first, or use a command")


def failed(error: OSError, path: str) -> FileRefused:
    if error.errno == errno.EAGAIN:
        return FileRefused(
            "swapped",
            path,
            f"{path} changed while it was being written",
            "read it again, then repeat the change",
        )
    return FileRefused("failed", path, f"{path}: {error.strerror}", "")
