"""Mounts: the old calls by path, the new ones by descriptor.

Facts about mounts (mount(2), mount_setattr(2), open_tree(2), fsopen(2), pivot_root(2)):
- A bind takes no other flag in the same call; read-only comes after, by remount or by mount_setattr.
- In a user namespace, flags that came from the outer mount are locked: a remount that would clear
  nosuid, nodev, noexec or read-only, or change how times of reading are told, is EPERM. mount_setattr
  changes only what it names, and AT_RECURSIVE covers a whole tree (5.12).
- The update of access times is one of several values: to set it, the field must be named as cleared.
- open_tree(OPEN_TREE_CLONE) makes a detached copy; it lives by its descriptor until move_mount puts it
  somewhere, and goes with the descriptor otherwise (5.2).
- pivot_root(".", ".") stacks the old root on the new one, and umount2(".", MNT_DETACH) takes it off.
- The ids of a detached mount can be mapped as a user namespace does (MOUNT_ATTR_IDMAP, 5.12), by root of the
  machine, where the file system supports it. Files of an id outside the map appear as the overflow id's.
- move_mount with a detached mount may cover a file by a file, a directory by a directory.
- For a call by descriptor the kernel's words are only an errno; fsopen's descriptor says more when read.
"""

import contextlib
import ctypes
import os

from pinfold.kernel.syscall import Path, check, libc, path_bytes, system_call

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_STRICTATIME = 1 << 24

MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MOUNT_ATTR_NOATIME = 0x10
_MOUNT_ATTR__ATIME = 0x70
_MOUNT_ATTR_IDMAP = 0x100000

AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOVE_MOUNT_T_EMPTY_PATH = 0x40
_FSOPEN_CLOEXEC = 1
_FSMOUNT_CLOEXEC = 1
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6


class _MountAttributes(ctypes.Structure):
    """struct mount_attr"""

    _fields_ = [
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    ]


def mount(
    source: Path | None, target: Path, kind: str | None, flags: int = 0, data: str | None = None
) -> None:
    """mount(2): a new file system, a bind, a remount or a change of propagation, as `flags` say."""
    result = libc.mount(
        None if source is None else path_bytes(source),
        path_bytes(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        None if data is None else path_bytes(data),
    )
    check("mount", result, target)


def bind(source: Path, target: Path) -> None:
    """Shows `source` at `target` too."""
    mount(source, target, None, MS_BIND)


def umount(target: Path, flags: int = 0) -> None:
    check("umount2", libc.umount2(path_bytes(target), ctypes.c_int(flags)), target)


def pivot_root(new_root: Path, put_old: Path) -> None:
    system_call("pivot_root", path_bytes(new_root), path_bytes(put_old), path=new_root)


def mount_setattr(descriptor: int, path: Path = b"", flags: int = 0, *, turn_on: int) -> None:
    """Turns attributes on of the mount at `path`, or of the descriptor's own if it is empty."""
    flags |= AT_EMPTY_PATH if not path else 0
    turn_off = _MOUNT_ATTR__ATIME if turn_on & _MOUNT_ATTR__ATIME else 0
    attributes = _MountAttributes(turn_on, turn_off, 0, 0)
    size = ctypes.sizeof(attributes)
    system_call(
        "mount_setattr", descriptor, path_bytes(path), flags, ctypes.byref(attributes), size, path=path
    )


def map_ids(tree: int, namespace: int) -> None:
    """The files of a detached mount have the owners that a user namespace's maps make of theirs."""
    attributes = _MountAttributes(_MOUNT_ATTR_IDMAP, 0, 0, namespace)
    size = ctypes.sizeof(attributes)
    system_call("mount_setattr", tree, b"", AT_EMPTY_PATH, ctypes.byref(attributes), size)


def open_tree(directory: int, path: Path, flags: int = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC) -> int:
    """The mount at `path`; with OPEN_TREE_CLONE a detached copy, with AT_RECURSIVE of all below it too."""
    flags |= AT_EMPTY_PATH if not path else 0
    return system_call("open_tree", directory, path_bytes(path), flags, path=path)


def move_mount(tree: int, directory: int, path: Path = b"") -> None:
    """Puts the mount of descriptor `tree` at `path`, or over the descriptor `directory` itself."""
    flags = MOVE_MOUNT_F_EMPTY_PATH | (MOVE_MOUNT_T_EMPTY_PATH if not path else 0)
    system_call("move_mount", tree, b"", directory, path_bytes(path), flags, path=path)


def new_mount(kind: str, options: dict[str, str | None], attributes: int = 0) -> int:
    """A new file system as a detached mount; an option without value is a flag."""
    context = system_call("fsopen", kind.encode(), _FSOPEN_CLOEXEC)
    try:
        try:
            for key, value in options.items():
                command = _FSCONFIG_SET_FLAG if value is None else _FSCONFIG_SET_STRING
                system_call(
                    "fsconfig",
                    context,
                    command,
                    path_bytes(key),
                    None if value is None else path_bytes(value),
                    0,
                )
            system_call("fsconfig", context, _FSCONFIG_CMD_CREATE, None, None, 0)
            return system_call("fsmount", context, _FSMOUNT_CLOEXEC, attributes)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} ({kind}{_words(context)})") from None
    finally:
        os.close(context)


def _words(context: int) -> str:
    """What the file system said about the failure, if it did."""
    with contextlib.suppress(OSError):
        return ": " + os.read(context, 4096).decode(errors="replace").strip()
    return ""
