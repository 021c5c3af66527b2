"""The pen's writable mounts, held open: so the warden finds what lies in them, wherever they are by now.

Facts that shape it (mount_namespaces(7); tried on 6.18):
- A mount follows the directory that it is mounted on, in every mount namespace. A root in a private /tmp is
  mounted on a directory that all pens of the session share. A command of a pen for which this is no writable
  root may rename the directories above it. Then it has another path in all pens, and what the host says of
  paths in it leads nowhere, or to something else.
- A descriptor from inside the pen always leads to the mount, with all that is mounted below.
- A pen can write below its writable mounts alone, and gets no more of these.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_SYMLINKS, decode_proc_path, openat2
from pinfold.sandbox.linux.init.session_root import OWN
from pinfold.sandbox.linux.protocol.pen_registry import ANYWHERE, mark_of

OUT_OF_REACH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
"""A warden with every right over files does not find it: then no process of its pen does."""
THING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MOST = 200
"""As many are held, besides the roots."""


class HeldMount(NamedTuple):
    point: str
    """Its path when the pen was built."""
    descriptor: int
    mark: bytes


class WritableMounts:
    def __init__(self) -> None:
        """Those of no pen, until `hold`."""
        self.held: list[HeldMount] = []
        """The innermost first."""
        self.marks: list[bytes] = []
        """Of the directories below which the pen may write (`pen_registry`)."""
        self.own: set[bytes] = set()
        """Those of them that are the session's own, such as /tmp: its other pens have them too."""

    def hold(self, proc: int, roots: Mapping[str, int]) -> None:
        """Holds those of this process's mount namespace.

        `proc`: the host's /proc; `roots`: writable directories by their paths, as the host opened them.
        Raises OSError if one of these was moved meanwhile.
        """
        found = {}
        for root, outside in roots.items():
            found[root] = mount = _held(root)
            if not os.path.samestat(os.fstat(mount.descriptor), os.fstat(outside)):
                raise OSError(errno.EBUSY, "a writable directory was moved while the sandbox was built", root)
        try:
            points = dict(_points(proc))
            marks = {point: mark_of(os.stat(point)) for point in points}
            self.marks = [*marks.values()]
            self.own = {marks[point] for point, source in points.items() if source == OWN}
            if len(points) > MOST:
                self.marks = [ANYWHERE]
            found |= {point: _held(point) for point in list(points)[:MOST] if point not in found}
        except OSError:  # another mount hides it, or it is another user's
            self.marks = [ANYWHERE]
        self.held = sorted(found.values(), key=lambda mount: len(mount.point), reverse=True)

    def open(self, path: str) -> int:
        """What the host, or this pen when it was built, has at a real path: an O_PATH descriptor. Follows no
        link."""
        for mount in self.held:
            if path == mount.point:
                return os.dup(mount.descriptor)
            if path.startswith(f"{mount.point}/"):
                below = path[len(mount.point) + 1 :]
                return openat2(mount.descriptor, below, os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)
        return openat2(AT_FDCWD, path, os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)

    def now(self, proc: int, path: str) -> str:
        """Which path in the pen the same place has at present."""
        for mount in self.held:
            if path == mount.point or path.startswith(f"{mount.point}/"):
                return os.readlink(f"self/fd/{mount.descriptor}", dir_fd=proc) + path[len(mount.point) :]
        return path

    def open_all(self, path: str, marks: list[bytes]) -> Iterator[int]:
        """All that another pen's path may lead to here. `marks`: of the directories that the file lies in,
        as the other pen sees them, the innermost first. Raises OSError if it cannot be told."""
        names = path.split("/")[1:]
        tries = [(AT_FDCWD, path)]
        for mount in self.held:
            for depth, mark in enumerate(marks, 1):
                if mark == mount.mark:
                    tries.append((mount.descriptor, "/".join(names[-depth:])))
        for directory, name in tries:
            try:
                yield openat2(directory, name, os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)
            except OSError as error:
                if error.errno not in OUT_OF_REACH:
                    raise


def _held(point: str) -> HeldMount:
    descriptor = os.open(point, THING)
    return HeldMount(point, descriptor, mark_of(os.fstat(descriptor)))


def _points(proc: int) -> Iterator[tuple[str, str]]:
    """Where writable mounts are, and the source of each. One that shows a part of what another one shows, at
    the same path, is left out."""
    kept: list[tuple[bytes, bytes, bytes]] = []
    listed = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    with open(listed, "rb") as file:
        for line in file:
            _, _, device, root, point, options, *_, source, _ = line.split(b" ")
            if b"rw" in options.split(b",") and not _is_part(device, root, point, kept):
                kept.append((device, root, point))
                yield decode_proc_path(point), decode_proc_path(source)


def _is_part(device: bytes, root: bytes, point: bytes, kept: list[tuple[bytes, bytes, bytes]]) -> bool:
    """Whether one of those shows the same thing at the same path."""
    return any(
        device == one and point.startswith(where + b"/") and root == shown.rstrip(b"/") + point[len(where) :]
        for one, shown, where in kept
    )
