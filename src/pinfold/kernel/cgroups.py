"""cgroup v2: where a group of ours may be made, and its settings.

Facts (Documentation/admin-guide/cgroup-v2.rst, cgroups(7)):
- A group has the controllers that its parent lists in `cgroup.subtree_control`. A group with processes of
  its own cannot list memory or pids there, unless it is the root of the hierarchy: so the place for a group
  is seldom our own, and mostly one further up.
- A process that may write a directory and its `cgroup.procs` may make groups in it. Moving a process asks to
  write `cgroup.procs` of the nearest group above both its old and its new one: in what was delegated, that is
  ours.
- Where the namespace is the boundary of delegation (`nsdelegate`), a process inside moves no process across
  it.
- `memory.max` counts the pages of tmpfs files too. Where swap is not counted there is no `memory.swap.max`.
- A group can be removed when no living process is in it; a process that has died leaves it at once.
- Hybrid machines have version 2 at /sys/fs/cgroup/unified, mostly without any controller: those are bound to
  version 1.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

CONTROLLERS = ("memory", "pids")
"""What limits of ours need."""


class Place(NamedTuple):
    """Where groups can be made, or why they cannot."""

    path: str
    """Without a place: our own group, empty if there is none of version 2."""
    trouble: str = ""


def find(controllers: Collection[str] = CONTROLLERS) -> Place:
    """The nearest group, our own or one above, in which we may make others that have these controllers."""
    own = own_group(_text("/proc/self/mountinfo"), _text("/proc/self/cgroup"))
    if own is None:
        return Place("", "cgroup v2 is not mounted")
    return nearest(*own, controllers)


def own_group(mountinfo: str, cgroup: str) -> tuple[str, str] | None:
    """Where the hierarchy is mounted and our own group in it, from what /proc/self says."""
    group = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::/")), None)
    mount = next((line.split() for line in mountinfo.splitlines() if " - cgroup2 " in line), None)
    if group is None or mount is None:
        return None
    # A mount may show a part of the hierarchy alone, and our group may lie outside of the namespace's.
    shown, top = mount[3].rstrip("/"), mount[4]
    if ".." in group.split("/") or not f"{group}/".startswith(f"{shown}/"):
        return None
    return top, (top + group[len(shown) :]).rstrip("/")


def nearest(top: str, own: str, controllers: Collection[str]) -> Place:
    lacking = True
    path = own
    while path == top or path.startswith(f"{top}/"):
        if {*controllers} <= {*_text(f"{path}/cgroup.subtree_control").split()}:
            lacking = False
            if all(os.access(place, os.W_OK) for place in (path, f"{path}/cgroup.procs")):
                return Place(path)
        path = os.path.dirname(path)
    if lacking:
        return Place(own, f"no cgroup at or above {own} delegates {' and '.join(controllers)}")
    return Place(own, f"no cgroup at or above {own} is delegated to you")


def make(parent: str, name: str, memory: int | None, processes: int | None) -> str:
    """A new group with these limits; its path. Without one that could not be limited."""
    path = f"{parent}/{name}"
    os.mkdir(path, 0o755)
    try:
        limit(path, memory, processes)
    except OSError:
        os.rmdir(path)
        raise
    return path


def limit(path: str, memory: int | None, processes: int | None) -> None:
    if memory is not None:
        _write(f"{path}/memory.max", memory)
        with suppress(FileNotFoundError):
            _write(f"{path}/memory.swap.max", 0)
    if processes is not None:
        _write(f"{path}/pids.max", processes)


def add(path: str, pid: int) -> None:
    """Moves a process, and all that it starts from then on, into a group."""
    _write(f"{path}/cgroup.procs", pid)


def remove(path: str) -> bool:
    """Removes a group without processes; False if it has some."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def names(parent: str) -> list[str]:
    """The groups in a group."""
    try:
        with os.scandir(parent) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _write(path: str, value: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, str(value).encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"cgroup: {error.strerror}", path) from None


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
