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
        """Empty until `hold`."""
        self.held: list[HeldMount] = []
        """The innermost first."""
        self.marks: list[bytes] = []
        """Marks of the directories below which the pen may write (`pen_registry`)."""
        self.own: set[bytes] = set()
        """Marks of the session's own directories, such as /tmp: its other pens have them too."""

    def hold(self, proc: int, roots: Mapping[str, int]) -> None:
        """Opens the writable mounts of this process's mount namespace.

        `proc`: the host's /proc; `roots`: writable directories by their paths, as the host opened them.
        Raises OSError if one of these was moved meanwhile.
        """
        found = {}
        for root, outside in roots.items():
            found[root] = mount = _opened(root)
            if not os.path.samestat(os.fstat(mount.descriptor), os.fstat(outside)):
                raise OSError(errno.EBUSY, "a writable directory was moved while the sandbox was built", root)
        for number, (point, source) in enumerate(_points(proc)):
            try:
                mark = mark_of(os.stat(point))
                if number < MOST and point not in found:
                    found[point] = _opened(point)
            except OSError:  # another mount hides it, or it is another user's
                mark = ANYWHERE
            self.marks.append(mark if number < MOST else ANYWHERE)
            if source == OWN:
                self.own.add(mark)
        self.held = sorted(found.values(), key=lambda mount: len(mount.point), reverse=True)

    def open(self, path: str) -> int:
        """Opens (O_PATH) what was at a real path when the pen was built, wherever it is by now. Follows no
        link."""
        for mount in self.held:
            if path == mount.point:
                return os.dup(mount.descriptor)
            if path.startswith(f"{mount.point}/"):
                below = path[len(mount.point) + 1 :]
                return openat2(mount.descriptor, below, os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)
        return openat2(AT_FDCWD, path, os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)

    def current_path(self, proc: int, path: str) -> str:
        """The path that a place has in the pen by now. `path` is the one that it had at first."""
        for mount in self.held:
            if path == mount.point or path.startswith(f"{mount.point}/"):
                return os.readlink(f"self/fd/{mount.descriptor}", dir_fd=proc) + path[len(mount.point) :]
        return path

    def open_all(self, path: str, marks: list[bytes]) -> Iterator[int]:
        """Opens (O_PATH) each file here that another pen's path may mean.

        `marks`: those of the directories that the file lies in, as the other pen sees them, the innermost
        first. Raises OSError if a file may be there and cannot be opened.
        """
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


def _opened(point: str) -> HeldMount:
    descriptor = os.open(point, THING)
    return HeldMount(point, descriptor, mark_of(os.fstat(descriptor)))


def _points(proc: int) -> Iterator[tuple[str, str]]:
    """The mount point and the source of each writable mount. Leaves out a mount that shows a part of what
    another one shows, at the same path."""
    kept: list[tuple[bytes, bytes, bytes]] = []
    listed = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    with open(listed, "rb") as file:
        for line in file:
            _, _, device, root, point, options, *_, source, _ = line.split(b" ")
            if b"rw" in options.split(b",") and not _is_part(device, root, point, kept):
                kept.append((device, root, point))
                yield decode_proc_path(point), decode_proc_path(source)


def _is_part(device: bytes, root: bytes, point: bytes, kept: list[tuple[bytes, bytes, bytes]]) -> bool:
    """Whether one of the kept mounts shows the same thing at the same path."""
    return any(
        device == one and point.startswith(where + b"/") and root == shown.rstrip(b"/") + point[len(where) :]
        for one, shown, where in kept
    )
