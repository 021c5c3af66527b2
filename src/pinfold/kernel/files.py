"""Files: the calls that Python's os does not have.

Facts about these calls (openat2(2), rename(2), faccessat2(2), open(2), statx(2)):
- openat2 (5.6) refuses flags it does not know, and RESOLVE_* bound the whole walk: BENEATH allows no absolute
  path and no step above the directory, links included; IN_ROOT makes the directory the root of the walk;
  NO_MAGICLINKS refuses /proc/PID/fd and its like. A rename during the walk can make it EAGAIN: try again.
- mode must be 0 without O_CREAT or O_TMPFILE.
- An O_PATH descriptor names an inode and gives no access; /proc/self/fd/N opens that very inode anew, with
  the access checks of now. It cannot be opened O_NOFOLLOW: that N is a link.
- The number of a deleted inode is soon given to a new one; statx (4.11) tells when an inode was made, where
  the file system keeps that.
- faccessat2 (5.8) judges with the effective ids when told AT_EACCESS."""

import ctypes
import errno
import os
import struct

from pinfold.kernel.syscall import Path, buffer, path_bytes, system_call
from pinfold.model.env_files import FileIdentity

AT_FDCWD = -100
AT_EACCESS = 0x200
AT_SYMLINK_NOFOLLOW = 0x100
AT_SYMLINK_FOLLOW = 0x400
AT_EMPTY_PATH = 0x1000

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10
STRICT = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
"""A walk that leaves its directory by nothing, and meets no link."""

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

_STATX_BTIME = 0x800
_STATX = struct.Struct("=I76xQI")  # the mask of filled fields, and stx_btime

_TRIES = 32


class _OpenHow(ctypes.Structure):
    """struct open_how"""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def openat2(directory: int, path: Path, flags: int, mode: int = 0, resolve: int = 0) -> int:
    """Opens a path under a directory's descriptor, within the bounds of `resolve`; always close-on-exec."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    arguments = (directory, path_bytes(path), ctypes.byref(how), ctypes.sizeof(how))
    for _ in range(_TRIES):
        try:
            return system_call("openat2", *arguments, path=path)
        except OSError as error:
            if error.errno != errno.EAGAIN or flags & os.O_NONBLOCK:
                raise
    raise OSError(errno.EAGAIN, "openat2: the tree would not keep still", os.fsdecode(path))


def renameat2(old_directory: int, old: Path, new_directory: int, new: Path, flags: int = 0) -> None:
    system_call("renameat2", old_directory, path_bytes(old), new_directory, path_bytes(new), flags, path=new)


def linkat(old_directory: int, old: Path, new_directory: int, new: Path, flags: int = 0) -> None:
    """A hard link; with AT_EMPTY_PATH and an empty `old`, of the descriptor itself (CAP_DAC_READ_SEARCH)."""
    system_call("linkat", old_directory, path_bytes(old), new_directory, path_bytes(new), flags, path=new)


def access_error(directory: int, path: Path, mode: int) -> int:
    """What keeps us from it, as the kernel says: EACCES, EPERM or EROFS; 0 if nothing does. Raises others."""
    flags = AT_EACCESS | (AT_EMPTY_PATH if not path else 0)
    try:
        system_call("faccessat2", directory, path_bytes(path), mode, flags)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            return error.errno
        raise
    return 0


def reopen(descriptor: int, flags: int) -> int:
    """Opens the inode of a descriptor anew, by no name that a program could swap."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)


def decode_proc_path(text: bytes) -> str:
    """The path in a field of a file such as /proc/self/mountinfo, which escapes blanks, line feeds and
    backslashes as octal numbers."""
    return os.fsdecode(text.decode("unicode_escape").encode("latin-1") if b"\\" in text else text)


def birth(path: Path, directory: int = AT_FDCWD) -> tuple[int, int] | None:
    """When what is at a path was made: seconds and nanoseconds; None if the file system does not know."""
    found = buffer(b"", 256)
    system_call("statx", directory, path_bytes(path), AT_SYMLINK_NOFOLLOW, _STATX_BTIME, found, path=path)
    mask, seconds, nanoseconds = _STATX.unpack_from(found)
    return (seconds, nanoseconds) if mask & _STATX_BTIME else None


def may_exist(directory: int, name: str) -> bool:
    """Whether a directory has an entry of this name; True also where the kernel does not say."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def identity_of(path: str | bytes, directory: int = AT_FDCWD) -> FileIdentity:
    """Of the file itself, be it a link. Raises OSError."""
    start = None if directory == AT_FDCWD else directory
    status = os.stat(path, dir_fd=start, follow_symlinks=False)
    return FileIdentity(status.st_dev, status.st_ino, birth(path, directory))
