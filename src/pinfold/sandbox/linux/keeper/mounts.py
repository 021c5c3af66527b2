"""Carries out the mounts of a plan, as its operations come. Runs before the spawner is forked.

Facts that shape it:
- A process of an earlier pen may still run in the same workspace and swap a directory for a link while we
  work: then a bind by path would open the link's target, writable. So we walk every path from a held
  descriptor with RESOLVE_NO_SYMLINKS, and mount it by descriptor; a plan's paths are real, so a link is an
  attack.
- With O_NOFOLLOW too, RESOLVE_NO_SYMLINKS would open a link at the end of the path as itself, and a link
  can be mounted on a link: nothing would be refused. Where a link is meant, that is what holds it: it leads
  where it did, and is neither removed nor replaced (EBUSY).
- Something protected or hidden that is gone by now needs no mount. One that we may not reach, the commands,
  which are the same user without our powers, cannot reach either, unless it lies where they may chmod: then
  we stop. A directory of another user, as in a /tmp that is granted, they may not.
"""

import errno
import os
import stat
from contextlib import suppress

from pinfold.kernel import mounts
from pinfold.kernel.files import RESOLVE_NO_SYMLINKS, openat2
from pinfold.sandbox.linux.init.session_root import CLOSED, EMPTY, HOST, NEW, PIECES, VOID, clone
from pinfold.sandbox.linux.protocol.operations import (
    Bind,
    BindAt,
    Cover,
    EnterRoot,
    Fasten,
    Hide,
    Link,
    Operation,
    Pin,
    Point,
    Protect,
    ReadOnlyRoot,
    Reveal,
    Seal,
    Show,
)

SAFE = mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV
READ_ONLY = SAFE | mounts.MOUNT_ATTR_RDONLY


class RootBuilder:
    """A pen's root while it is put together."""

    def __init__(self) -> None:
        self.host = os.open(HOST, os.O_PATH | os.O_CLOEXEC)
        self.new = -1
        self.writable: list[str] = []

    def apply(self, operation: Operation) -> bool:
        """Does one operation; False if it is none about mounts."""
        match operation:
            case ReadOnlyRoot():
                machine = CLOSED if os.path.exists(CLOSED) else HOST
                self._put(mounts.AT_FDCWD, mounts.AT_FDCWD, NEW, READ_ONLY, machine)
                self.new = os.open(NEW, os.O_PATH | os.O_CLOEXEC)
            case Show(piece, path):
                self._show(path, PIECES[piece])
            case Cover(path):
                self._cover(path)
            case Point(path, kind):
                self._point(path, kind)
            case Bind(path, writable):
                self._onto(path, SAFE if writable else READ_ONLY, OpenPath)
                if writable:
                    self.writable.append(path)
            case BindAt(source, path):
                with OpenPath(self.host, source) as lent, OpenPath(self.new, path) as target:
                    self._put(lent, target, "", SAFE)
            case Pin(path):
                self._unless_gone(path, SAFE, OpenPath)
            case Fasten(path):
                self._unless_gone(path, READ_ONLY, OpenLink)
            case Protect(path) | Reveal(path):
                self._unless_gone(path, READ_ONLY, OpenPath)
            case Link(path, leads):
                self._link(path, leads)
            case Hide(path, _):
                self._hide(path)
            case Seal(path):
                with OpenPath(self.new, path) as target:
                    mounts.mount_setattr(target, turn_on=mounts.MOUNT_ATTR_RDONLY)
            case EnterRoot():
                self._enter()
            case _:
                return False
        return True

    def _onto(self, path: str, attributes: int, held: "type[OpenPath]") -> None:
        """The machine's tree at a path, over the same path of the new root."""
        with held(self.host, path) as source, held(self.new, path) as target:
            self._put(source, target, "", attributes)

    def _unless_gone(self, path: str, attributes: int, held: "type[OpenPath]") -> None:
        try:
            with suppress(FileNotFoundError):
                self._onto(path, attributes, held)
        except PermissionError as error:
            if error.errno != errno.EACCES or not self._is_closed_by_others(path):
                raise

    def _hide(self, path: str) -> None:
        try:
            held = OpenPath(self.new, path)
        except FileNotFoundError:
            return
        except PermissionError as error:
            # Any other trouble than a directory that we may not search (EACCES) would be ours alone.
            may_open = any(path.startswith(f"{root}/") for root in self.writable)
            if error.errno != errno.EACCES or (may_open and not self._is_closed_by_others(path)):
                raise
            return
        with held as target:
            stand_in = EMPTY if stat.S_ISDIR(os.fstat(target).st_mode) else VOID
            self._put(mounts.AT_FDCWD, target, "", READ_ONLY, stand_in)

    def _is_closed_by_others(self, path: str) -> bool:
        """Whether the directory above it that may not be searched belongs to another user."""
        owner = os.geteuid()
        parts = path.strip("/").split("/")
        for end in range(1, len(parts)):
            try:
                with OpenPath(self.new, "/".join(parts[:end])) as directory:
                    owner = os.fstat(directory).st_uid
            except OSError:
                break
        return owner != os.geteuid()

    def _show(self, path: str, source: str) -> None:
        with OpenPath(self.new, path) as target:
            self._put(mounts.AT_FDCWD, target, "", 0, source)

    def _cover(self, path: str) -> None:
        tree = mounts.new_mount("tmpfs", {"mode": "0755", "size": "1m"}, SAFE)
        try:
            with OpenPath(self.new, path) as target:
                mounts.move_mount(tree, target)
        finally:
            os.close(tree)

    def _point(self, path: str, kind: str) -> None:
        """Makes directories down to the path, inside a tmpfs of ours; raises for a link on the way."""
        parts = path.strip("/").split("/")
        for end in range(1, len(parts)):
            self._make("/".join(parts[:end]), "directory")
        self._make("/".join(parts), kind)

    def _link(self, path: str, target: str) -> None:
        head, name = os.path.split(path)
        self._point(head, "directory")
        with OpenPath(self.new, head) as parent:
            os.symlink(target, name, dir_fd=parent)

    def _make(self, relative: str, kind: str) -> None:
        head, _, name = relative.rpartition("/")
        with OpenPath(self.new, head) as parent:
            try:
                os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                if kind == "directory":
                    os.mkdir(name, 0o755, dir_fd=parent)
                else:
                    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent))

    def _put(self, source: int, target: int, path: str, attributes: int, name: str = "") -> None:
        tree = mounts.open_tree(source, name, clone())
        try:
            if attributes:
                mounts.mount_setattr(tree, flags=mounts.AT_RECURSIVE, turn_on=attributes)
            mounts.move_mount(tree, target, path)
        finally:
            os.close(tree)

    def _enter(self) -> None:
        os.fchdir(self.new)
        mounts.pivot_root(".", ".")
        mounts.umount(".", mounts.MNT_DETACH)
        os.chdir("/")
        os.close(self.new)
        os.close(self.host)


class OpenPath:
    """The thing at a path below a directory, no link followed, for as long as it is needed."""

    def __init__(self, directory: int, path: str) -> None:
        self.descriptor = openat2(directory, path.strip("/") or ".", os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


class OpenLink(OpenPath):
    """The link at a path, none being followed on the way. If something else is there, it counts as gone."""

    def __init__(self, directory: int, path: str) -> None:
        head, _, name = path.strip("/").rpartition("/")
        with OpenPath(directory, head) as parent:
            self.descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        if not stat.S_ISLNK(os.fstat(self.descriptor).st_mode):
            os.close(self.descriptor)
            raise FileNotFoundError(errno.ENOENT, "no link any more", path)
