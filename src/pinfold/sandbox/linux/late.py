"""Mounts in a pen that already runs, made by its warden: the power for them is taken up for that moment alone.

Facts that shape it, tried on 6.18:
- A mount made in the pen's own mount namespace is seen by every process of the pen at once, and can be made
  and undone by whoever has CAP_SYS_ADMIN in its user namespace.
- A clone that is not recursive leaves out what is mounted below: through it, and by descriptor alone, the
  warden reaches what lies under a read-only mount. Nobody inside can have such a descriptor.
- Capabilities are a thread's own, and permitted ones take effect only while they are raised: the warden's
  other work is done without this one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pinfold.kernel import mounts
from pinfold.kernel.capabilities import CAP_SYS_ADMIN, capget, capset

READ_ONLY = mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_RDONLY
POWER = 1 << CAP_SYS_ADMIN


@contextmanager
def powers() -> Iterator[None]:
    before = capget()
    capset(before._replace(effective=before.effective | POWER))
    try:
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
