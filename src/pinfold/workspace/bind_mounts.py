"""Where else something lies: a file system can be mounted at several places, and overlays have layers.

Facts (proc_pid_mountinfo(5)):
- A line of mountinfo tells the device, which directory of it is mounted (its root), and where. Two mounts of
  one device show the same things where one's root lies in the other's: a bind mount, the whole of a file
  system beside a subvolume of it, homes and caches kept on a disk of their own and bound into place.
- Blanks, line feeds and backslashes in its paths are written in octal, and a carriage return as it is.
- A mount may be covered by a later one. So what the lines say is a guess, and the inode proves it.
- An overlay's options name its layers (`lowerdir=a:b`, `lowerdir+=a`, `upperdir=c`; a colon in a name is
  `\\:`), by their paths when it was mounted. An overlay's inode is not the layer's, so nothing proves that it
  shows what lies there: all that a layer has at the same place counts.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from pinfold.kernel.files import decode_proc_path
from pinfold.policy.paths import upwards

MOUNTS = "/proc/self/mountinfo"
LAYERS = (b"lowerdir", b"lowerdir+", b"datadir+", b"upperdir")


class Mount(Struct, frozen=True):
    device: str
    root: str
    """Which directory or file of the device it shows."""
    point: str
    """Where."""
    layers: tuple[str, ...] = ()
    """Of an overlay: directories whose content it shows."""


def other_mount_points(paths: Iterable[str], mounts: Iterable[Mount]) -> Iterator[str]:
    """The other places of what lies at these paths; of a directory that is seen there in part, that part."""
    mounts = tuple(mounts)
    layered = tuple(_layered(paths := tuple(paths), mounts))
    yield from layered
    paths = (*paths, *layered)
    shared = _shared(mounts)
    if not shared:
        return
    # There may be thousands of mounts: they are looked up, by where they are and by what they show.
    at: dict[str, list[Mount]] = {}
    showing: dict[tuple[str, str], list[Mount]] = {}
    inside: dict[tuple[str, str], list[Mount]] = {}
    for mount in shared:
        at.setdefault(mount.point, []).append(mount)
        showing.setdefault((mount.device, mount.root), []).append(mount)
        for above in islice(upwards(mount.root), 1, None):
            inside.setdefault((mount.device, above), []).append(mount)
    for path in paths:
        for place in upwards(path):
            for one in at.get(place, ()):
                within = _joined(one.root, _below(place, path))
                for above in upwards(within):
                    for other in showing.get((one.device, above), ()):
                        yield from _proven(path, _joined(other.point, _below(above, within)))
                for other in inside.get((one.device, within), ()):
                    yield from _proven(_joined(path, _below(within, other.root)), other.point)


def load_mounts() -> tuple[Mount, ...]:
    """Those that this process sees."""
    with open(MOUNTS, "rb") as file:
        return parse_mounts(file.read())


def parse_mounts(mountinfo: bytes) -> tuple[Mount, ...]:
    return tuple(_parsed(line) for line in mountinfo.split(b"\n") if line)


def _parsed(line: bytes) -> Mount:
    device, root, point = line.split(b" ", 5)[2:5]
    kind, *rest = line.partition(b" - ")[2].split(b" ")
    layers = _layers(rest[-1]) if kind == b"overlay" and rest else ()
    return Mount(device.decode(), decode_proc_path(root), decode_proc_path(point), tuple(layers))


def _layers(options: bytes) -> Iterator[str]:
    for option in options.split(b","):
        name, _, value = option.partition(b"=")
        if name not in LAYERS:
            continue
        for layer in re.split(r"(?<!\\):", decode_proc_path(value)):
            if layer.startswith("/"):
                yield layer.replace("\\:", ":")


def _layered(paths: tuple[str, ...], mounts: tuple[Mount, ...]) -> Iterator[str]:
    """What layers of overlays have where these paths are in the overlay."""
    at: dict[str, list[tuple[Mount, tuple[str, ...]]]] = {}
    for mount in mounts:
        # A container's own layers are mostly out of its sight.
        if mount.layers and (seen := tuple(map(os.path.realpath, filter(os.path.isdir, mount.layers)))):
            at.setdefault(mount.point, []).append((mount, seen))
    for path in paths if at else ():
        for place in upwards(path):
            for mount, layers in at.get(place, ()):
                within = _joined(mount.root, _below(place, path))
                for layer in layers:
                    found = os.path.realpath(_joined(layer, within))
                    if found != path and os.path.lexists(found):
                        yield found


def _shared(mounts: Iterable[Mount]) -> list[Mount]:
    """Those whose device is mounted at several places: most machines have few."""
    by_device: dict[str, list[Mount]] = {}
    for mount in dict.fromkeys(mounts):
        by_device.setdefault(mount.device, []).append(mount)
    return [mount for found in by_device.values() if len(found) > 1 for mount in found]


def _below(directory: str, path: str) -> str:
    """What comes after the directory in a path that is it or lies in it."""
    return path[len(directory.rstrip("/")) :]


def _joined(directory: str, rest: str) -> str:
    return directory.rstrip("/") + rest.rstrip("/") or "/"


def _proven(path: str, other: str) -> Iterator[str]:
    """The other place, if the same thing lies there."""
    if path != other and _is_same(path, other):
        yield other


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False
