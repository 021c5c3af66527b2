"""The machine's tree with root's own files closed, for commands that have root's uid and none of its powers.

As their owner, they could read what only root may read: `/etc/shadow`, the keys of the machine's sshd. In
mounts that map root's id to an unused one, they are one of the others, as an ordinary user is. Where
the file system of `/` cannot map ids, as in most containers, a walk finds them, and something empty is
mounted over each.

Facts that shape it, tried on 6.18:
- Only root of the machine may map the ids of a mount (MOUNT_ATTR_IDMAP). So a helper does it before it makes
  the session's user namespace.
- Of a detached tree only the topmost mount can be mapped, so each mount is taken by itself. The helper puts
  them together too: to init, directories that only root may search are closed as soon as ids are mapped. So
  they would be to the helper, for all its powers, if root's id were mapped to none.
- proc, sysfs, devtmpfs, cgroup and overlayfs refuse. Such a mount is taken as it is, with all below it.
- A user namespace without processes keeps its maps as long as a descriptor or a mount holds it.
- What is mounted in a shared mount appears in each of its peers, on the machine too.
"""

import os
import stat
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from pinfold.kernel import mounts, namespaces
from pinfold.kernel.files import decode_proc_path

WALKED = ("/etc", "/root", "/home", "/srv", "/opt", "/var")
"""Where such files are looked for without ids that are mapped."""
MOST_WALKED = 50_000
"""Names that the walk looks at, those nearest to the top first: 0.1 to 0.2 seconds."""
LAST_ID = (1 << 32) - 2
"""The largest that the kernel knows; no user has it."""
ALL_BUT_ROOT = f"0 {LAST_ID} 1\n1 1 {LAST_ID - 1}\n"
"""As user_namespaces(7) has it: each id is itself, but root's."""
CLONE = mounts.OPEN_TREE_CLONE | mounts.OPEN_TREE_CLOEXEC
PLACE = "/proc"
"""Any directory that every machine has: the helper puts the tree together over it."""


class Part(NamedTuple):
    """A mount of the tree, or one with all below it, that is not in place yet."""

    path: str
    tree: int


class ClosedTree(NamedTuple):
    """The machine's tree, to be mounted where root's commands look."""

    tree: int
    """The descriptor of a detached mount, with all below it."""
    covered: list[tuple[str, bool]]
    """What is to be covered in it besides, and whether it is a directory."""


def take_tree() -> ClosedTree:
    """The tree, with ids mapped or with what is to be covered.

    Preconditions: this is root of the machine, in a mount namespace of its own that shares nothing.
    """
    tree = _mapped_tree() if os.stat("/").st_mode & stat.S_IXOTH else None
    if tree is not None:
        return ClosedTree(tree, [])
    whole = mounts.open_tree(mounts.AT_FDCWD, "/", CLONE | mounts.AT_RECURSIVE)
    return ClosedTree(whole, list(_readable_by_root_alone()))


def _mapped_tree() -> int | None:
    """All of it, detached; None where ids cannot be mapped. Raises OSError where `PLACE` stays covered."""
    try:
        top, *others = parts = _mapped_parts()
    except OSError:
        return None
    try:
        mounts.move_mount(top.tree, mounts.AT_FDCWD, PLACE)
        try:
            return _put_together(others)
        finally:
            mounts.umount(PLACE, mounts.MNT_DETACH)
    finally:
        for part in parts:
            os.close(part.tree)


def _put_together(parts: list[Part]) -> int | None:
    with suppress(OSError):
        for part in parts:
            # What was covered by another mount may have no place.
            with suppress(FileNotFoundError, NotADirectoryError):
                mounts.move_mount(part.tree, mounts.AT_FDCWD, PLACE + part.path)
        return mounts.open_tree(mounts.AT_FDCWD, PLACE, CLONE | mounts.AT_RECURSIVE)
    return None


def _readable_by_root_alone() -> Iterator[tuple[str, bool]]:
    """Files, and directories as a whole."""
    for entry in islice(_entries(WALKED), MOST_WALKED):
        is_directory = entry.is_dir(follow_symlinks=False)
        with suppress(OSError):
            if _is_roots(entry.stat(follow_symlinks=False)):
                yield entry.path, is_directory


def _entries(tops: Iterable[str]) -> Iterator[os.DirEntry[str]]:
    """Files and directories, breadth first, without what lies in a directory that only root may read."""
    waiting = deque(tops)
    while waiting:
        with suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not _is_roots(entry.stat(follow_symlinks=False)):
                        waiting.append(entry.path)
                    yield entry
                elif entry.is_file(follow_symlinks=False):
                    yield entry


def _is_roots(status: os.stat_result) -> bool:
    """Whether root may read it as its owner or by its group, and others may not. A directory that others may
    search is no such: what is in it is looked at by itself."""
    others = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else 0)
    return not status.st_mode & others and 0 in (status.st_uid, status.st_gid)


def _mapped_parts() -> list[Part]:
    """Parents first."""
    parts: list[Part] = []
    below = _mounts_below()
    ids = namespaces.mapping(ALL_BUT_ROOT)
    try:
        _take("/", below, ids, parts)
    finally:
        os.close(ids)
    return parts


def _take(path: str, below: dict[str, list[str]], ids: int, parts: list[Part]) -> None:
    tree = mounts.open_tree(mounts.AT_FDCWD, path, CLONE)
    try:
        mounts.map_ids(tree, ids)
    except OSError:
        os.close(tree)
        if path == "/":
            raise
        parts.append(Part(path, mounts.open_tree(mounts.AT_FDCWD, path, CLONE | mounts.AT_RECURSIVE)))
        return
    parts.append(Part(path, tree))
    for each in below[path]:
        with suppress(FileNotFoundError, NotADirectoryError):
            _take(each, below, ids, parts)


def _mounts_below() -> dict[str, list[str]]:
    """By where a mount is: where those are that are mounted on it (proc(5))."""
    with open("/proc/self/mountinfo", "rb") as file:
        found = [line.split(b" ", 5)[:5] for line in file]
    place = {number: decode_proc_path(point) for number, _, _, _, point in found}
    below: dict[str, list[str]] = defaultdict(list)
    for number, parent, *_ in found:
        path = place[number]
        above = place.get(parent, path)
        if path != above and path not in below[above]:
            below[above].append(path)
    return below
