"""Mounts in a pen that already runs, made by its warden, with powers taken up for that moment alone.

Facts that shape it, tried on 6.18:
- A mount made in the pen's own mount namespace is seen by every process of the pen at once, and can be made
  and undone by whoever has CAP_SYS_ADMIN in its user namespace.
- A clone that is not recursive leaves out what is mounted below: through it, and by descriptor alone, the
  warden reaches what lies under a read-only mount. Nobody inside can have such a descriptor.
- Capabilities are a thread's own, and permitted ones take effect only while they are raised: the warden's
  other work is done without these.
- Commands can make their warden hold as many descriptors as it may have (sockets that they bind, connects
  that wait). A mount that then failed would leave open what the host has replaced, so those that it needs are
  kept for it (`room`).
- Between the birth of a name and its mount anybody can open it, if only as a path (O_PATH), and later by
  /proc/self/fd for writing, past the mount. No lease tells of such a descriptor. But a directory of mode 0
  can be searched by nobody inside, its owner included, for no one has a capability; whoever was let in
  before is waited for (`passing`). The owner can give the mode back, which inotify tells without fail.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pinfold.kernel import mounts
from pinfold.kernel.capabilities import CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, capget, capset
from pinfold.kernel.inotify import IN_ATTRIB, add, create, events
from pinfold.sandbox.linux.limits import raised
from pinfold.sandbox.linux.warden.lookup_barrier import wait_for_lookups

READ_ONLY = mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_RDONLY
MOUNTING, SEARCHING = 1 << CAP_SYS_ADMIN, 1 << CAP_DAC_OVERRIDE
POWERS = MOUNTING | SEARCHING


@contextmanager
def powers(wanted: int = MOUNTING) -> Iterator[None]:
    before = capget()
    capset(before._replace(effective=before.effective | wanted))
    try:
        with raised():
            yield
    finally:
        capset(before)


def protect(thing: int) -> None:
    """What a descriptor (O_PATH) names becomes read-only where it lies."""
    with powers():
        tree = mounts.open_tree(thing, b"")
        try:
            mounts.mount_setattr(tree, turn_on=READ_ONLY)
            mounts.move_mount(tree, thing)
        finally:
            os.close(tree)


@contextmanager
def closed(directory: int, proc: int) -> Iterator[Callable[[], bool]]:
    """Nobody but us finds a name in this directory meanwhile. Asked at the end: did it stay so?"""
    watch = create()
    try:
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        os.close(watch)
        raise
    os.fchdir(handle)
    add(watch, b".", IN_ATTRIB)
    os.chdir("/")
    mode = stat.S_IMODE(os.fstat(handle).st_mode)

    def is_closed() -> bool:
        return not stat.S_IMODE(os.fstat(handle).st_mode)

    def stayed_closed() -> bool:
        _wait_for_lock(handle)
        changed = any(not event.name for event in events(watch))
        return not changed and is_closed()

    try:
        with powers(POWERS):
            os.fchmod(handle, 0)
            events(watch)
            _wait_for_lock(handle)
            yield stayed_closed if wait_for_lookups(proc) and is_closed() else lambda: False
    finally:
        os.fchmod(handle, mode)
        os.close(watch)
        os.close(handle)


def _wait_for_lock(directory: int) -> None:
    """Until it was ours, for writing, after all who waited for it before."""
    with suppress(FileNotFoundError):
        os.rmdir(b"pinfold-is-not-here", dir_fd=directory)


def cover(thing: int, stand_in: str) -> None:
    """Something empty comes over what a descriptor names."""
    with powers():
        tree = mounts.open_tree(mounts.AT_FDCWD, stand_in)
        try:
            mounts.mount_setattr(tree, turn_on=READ_ONLY)
            mounts.move_mount(tree, thing)
        finally:
            os.close(tree)


def uncovered(directory: int) -> int:
    """A directory without what is mounted in it: a descriptor, and with it the only way there."""
    with powers():
        return mounts.open_tree(directory, b"")


def take_away(directory: int, name: bytes) -> None:
    """Removes a file together with what is mounted on it."""
    os.fchdir(directory)
    try:
        with powers(), suppress(OSError):
            mounts.umount(name, mounts.MNT_DETACH | mounts.UMOUNT_NOFOLLOW)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
    finally:
        os.chdir("/")


def is_read_only(thing: int) -> bool:
    """Whether the mount that a descriptor was reached by is read-only."""
    return bool(os.fstatvfs(thing).f_flag & os.ST_RDONLY)
