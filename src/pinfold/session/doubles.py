"""Where else something lies, since a file system can be mounted at several places.

Facts (proc_pid_mountinfo(5)):
- A line of mountinfo tells the device, which directory of it is mounted (its root), and where. Two mounts of
  one device show the same things where one's root lies in the other's: a bind mount, the whole of a file
  system beside a subvolume of it, homes and caches kept on a disk of their own and bound into place.
- Blanks, line feeds and backslashes in its paths are written in octal, and a carriage return as it is.
- A mount may be covered by a later one. So what the lines say is a guess, and the inode proves it.
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MOUNTS = "/proc/self/mountinfo"


class Mount(NamedTuple):
    device: str
    root: str
    """Which directory or file of the device it shows."""
    point: str
    """Where."""


def doubles(paths: Iterable[str], mounts: Iterable[Mount]) -> Iterator[str]:
    """The other places of what lies at these paths; of a directory that is seen there in part, that part."""
    pairs = _overlapping(tuple(mounts))
    for path in paths if pairs else ():
        for one, other in pairs:
            if (rest := _below(one.point, path)) is not None:
                yield from _seen(path, one.root.rstrip("/") + rest, other)


def load_mounts() -> tuple[Mount, ...]:
    """Those that this process sees."""
    with open(MOUNTS, "rb") as file:
        return parse_mounts(file.read())


def parse_mounts(mountinfo: bytes) -> tuple[Mount, ...]:
    fields = (line.split(b" ", 5)[2:5] for line in mountinfo.split(b"\n") if line)
    return tuple(Mount(device.decode(), _path(root), _path(point)) for device, root, point in fields)


def _path(text: bytes) -> str:
    if b"\\" in text:
        text = text.decode("unicode_escape").encode("latin-1")
    return os.fsdecode(text)


def _overlapping(mounts: tuple[Mount, ...]) -> list[tuple[Mount, Mount]]:
    """Pairs of which one shows something of the other, both ways round: most machines have none."""
    by_device: dict[str, list[Mount]] = {}
    for mount in mounts:
        by_device.setdefault(mount.device, []).append(mount)
    return [
        (one, other)
        for found in by_device.values()
        for one in found
        for other in found
        if one.point != other.point
        and (_below(one.root, other.root) is not None or _below(other.root, one.root) is not None)
    ]


def _seen(path: str, within: str, mount: Mount) -> Iterator[str]:
    """`within`: where it lies in the mount's device."""
    if (rest := _below(mount.root, within)) is not None:
        pair = path, (mount.point.rstrip("/") + rest or "/")
    elif (rest := _below(within, mount.root)) is not None:
        pair = path + rest, mount.point
    else:
        return
    if pair[0] != pair[1] and _is_same(*pair):
        yield pair[1]


def _below(directory: str, path: str) -> str | None:
    """What comes after the directory in a path that is it or lies in it."""
    directory = directory.rstrip("/")
    return path[len(directory) :] if f"{path}/".startswith(f"{directory}/") else None


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False
