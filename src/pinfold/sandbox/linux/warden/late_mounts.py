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

Lookups that are under way: when has each one ended that began before now?

A lookup asks leave to search a directory, and then for the name. Between the two it may lose the processor,
or wait for the directory's lock, for as long as others please; whoever was let in before the directory was
closed finds what is born in it then.

Facts (fs/namei.c, fs/proc, proc(5)):
- Between the two a lookup takes a microsecond of the processor's time, and sleeps for nothing but the lock of
  the directory and the disk, neither of which a signal ends: its thread is in state R or D, not in S.
- Who waits for the lock gets it in the order of asking. So whoever has taken it for writing comes after all
  who waited before, and they are in state R, or through.
- /proc/TID/schedstat tells for how long a thread has run, in nanoseconds, up to its last turn or the last
  tick. A thread that is new began no lookup before.
- Everybody who is fenced has a seccomp filter, whichever session's, which /proc/PID/status tells.

Accepted: where /proc is mounted with hidepid, other sessions' threads are not seen.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from pinfold.kernel import mounts
from pinfold.kernel.capabilities import CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, capget, capset
from pinfold.kernel.inotify import IN_ATTRIB, add, create, events
from pinfold.sandbox.linux.limits import raised

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


FILTERED = b"\nSeccomp:\t2\n"
RUNS, UNDER_WAY = b"R", b"RD"
ENOUGH = 100_000
"""Nanoseconds of running, after which any lookup has ended."""
OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Why we cannot look at a thread that may be there."""
PATIENCE, LOOK = 2.0, 0.001
"""Seconds."""


def wait_for_lookups(proc: int) -> bool:
    """Waits until no lookup of any fenced thread is under way that was so when this began; False if that
    takes too long.

    Preconditions: whoever waited for the lock of the directory in question has got it.
    """
    end = monotonic() + PATIENCE
    waiting = {thread: ran for thread, state, ran in _threads(proc) if state in RUNS}
    while waiting:
        sleep(LOOK)
        if monotonic() > end:
            return False
        for thread in list(waiting):
            state, ran = _turns(proc, thread)
            if state not in UNDER_WAY or ran - waiting[thread] >= ENOUGH:
                del waiting[thread]
    return True


def _threads(proc: int) -> list[tuple[str, bytes, int]]:
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    try:
        processes = [name for name in os.listdir(listed) if name.isdigit()]
    finally:
        os.close(listed)
    fenced = (process for process in processes if FILTERED in _read(proc, f"{process}/status"))
    return [(thread, *_turns(proc, thread)) for process in fenced for thread in _threads_of(proc, process)]


def _threads_of(proc: int, process: str) -> list[str]:
    try:
        tasks = os.open(f"{process}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    except OSError as error:
        if error.errno in OURS:
            raise
        return []
    try:
        return [f"{process}/task/{thread}" for thread in os.listdir(tasks)]
    finally:
        os.close(tasks)


def _turns(proc: int, thread: str) -> tuple[bytes, int]:
    """The state of a thread, and for how long it has run; no state if it has gone."""
    state = _read(proc, f"{thread}/stat").rpartition(b") ")[2][:1]
    ran = _read(proc, f"{thread}/schedstat").partition(b" ")[0]
    return state or b"X", int(ran or 0)


def _read(proc: int, path: str) -> bytes:
    """Nothing of a thread that has gone. Raises OSError if we are out of descriptors or memory."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError as error:
        if error.errno in OURS:
            raise
        return b""
    try:
        return os.read(file, 4096)
    except OSError:
        return b""
    finally:
        os.close(file)
