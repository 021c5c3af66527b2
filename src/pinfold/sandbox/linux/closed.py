"""The machine's tree with root's own files closed, for commands that have root's uid and none of its powers.

As their owner, they could read what only root may read: `/etc/shadow`, the keys of the machine's sshd. In
mounts that map root's id to no id, they are one of the others, as an ordinary user is.

Facts that shape it, tried on 6.18:
- Only root of the machine may map the ids of a mount (MOUNT_ATTR_IDMAP). So a helper does it before it makes
  the session's user namespace, and init puts the mounts into place, by their descriptors.
- Of a detached tree only the topmost mount can be mapped, so each mount is taken by itself.
- proc, sysfs, devtmpfs, cgroup and overlayfs refuse. Such a mount is taken as it is, with all below it.
- A user namespace without processes keeps its maps as long as a descriptor or a mount holds it.
- What is mounted in a shared mount appears in each of its peers, on the machine too.
"""

import os
import stat
from collections import defaultdict
from contextlib import suppress
from typing import NamedTuple

from pinfold.kernel import mounts, namespaces

ALL_BUT_ROOT = f"1 1 {(1 << 32) - 2}\n"
"""As user_namespaces(7) has it: each id is itself, and 0 is none."""
CLONE = mounts.OPEN_TREE_CLONE | mounts.OPEN_TREE_CLOEXEC


class Part(NamedTuple):
    """A mount of the tree, or one with all below it, that is not in place yet."""

    path: str
    tree: int


def take_parts() -> list[Part]:
    """The tree's mounts, parents first; none if it cannot be closed.

    Preconditions: this is root of the machine, in a mount namespace of its own that shares nothing.
    """
    if not os.stat("/").st_mode & stat.S_IXOTH:
        return []
    below = _mounts_below()
    parts: list[Part] = []
    with suppress(OSError):
        ids = namespaces.mapping(ALL_BUT_ROOT)
        try:
            _take("/", below, ids, parts)
        finally:
            os.close(ids)
    return parts


def put_parts(parts: list[Part], where: str) -> None:
    for part in parts:
        # What was covered by another mount may have no place.
        with suppress(FileNotFoundError, NotADirectoryError):
            mounts.move_mount(part.tree, mounts.AT_FDCWD, where + part.path.rstrip("/"))
        os.close(part.tree)


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
    place = {number: _path(point) for number, _, _, _, point in found}
    below: dict[str, list[str]] = defaultdict(list)
    for number, parent, *_ in found:
        path = place[number]
        above = place.get(parent, path)
        if path != above and path not in below[above]:
            below[above].append(path)
    return below


def _path(text: bytes) -> str:
    """Blanks, line feeds and backslashes are written in octal."""
    return os.fsdecode(text.decode("unicode_escape").encode("latin-1") if b"\\" in text else text)
