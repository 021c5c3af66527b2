"""Mounts that the warden makes in a running pen, with capabilities that it raises for that moment only.

Facts that shape it, tried on 6.18:
- A mount made in the pen's own mount namespace appears for every process of the pen at once. Making and
  undoing it needs CAP_SYS_ADMIN in its user namespace.
- A clone that is not recursive leaves out what is mounted below. Through it, and by descriptor alone, the
  warden reaches what lies under a read-only mount. No process inside can have such a descriptor.
- Capabilities belong to a thread, and permitted ones count only while they are raised. The warden does its
  other work without these.
- Commands can make the warden hold as many descriptors as it may have (sockets that they bind, connects that
  wait). A failed mount would leave a file open that the host has replaced. So the descriptors for mounts are
  reserved (`limits`).
- Between the creation of a name and its mount, any process could open the file, if only as a path (O_PATH),
  and later reopen it for writing by /proc/self/fd, past the mount. No lease reveals such a descriptor. But a
  process inside cannot search a directory of mode 0, even as its owner, since none has a capability. The
  warden waits for lookups that began before (`wait_for_lookups`). The owner can restore the mode, which
  inotify reports without fail.

Facts about lookups (fs/namei.c, fs/proc, proc(5)):
- A lookup checks the right to search a directory, and then looks for the name. Between the two it may lose
  the processor, or wait for the directory's lock, as long as other threads please. A lookup that was let in
  before the directory was closed finds what is created in it afterwards.
- Between the two it takes a microsecond of processor time, and sleeps for nothing but the directory's lock
  and the disk. A signal ends neither wait: the thread is in state R or D, not in S.
- Threads get the lock in the order of asking. So a thread that has taken it for writing comes after all
  earlier waiters, and those are in state R or done.
- /proc/TID/schedstat tells how long a thread has run, in nanoseconds, up to its last turn or the last tick. A
  new thread began no earlier lookup.
- Every sandboxed process, of any session, has a seccomp filter, which /proc/PID/status shows.

Accepted: where /proc is mounted with hidepid, the threads of other sessions are not seen.
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
from pinfold.sandbox.linux.limits import full_limit

READ_ONLY = mounts.MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NODEV | mounts.MOUNT_ATTR_RDONLY
MOUNTING, SEARCHING = 1 << CAP_SYS_ADMIN, 1 << CAP_DAC_OVERRIDE
CAPABILITIES = MOUNTING | SEARCHING


@contextmanager
def raised_capabilities(wanted: int = MOUNTING) -> Iterator[None]:
    before = capget()
    capset(before._replace(effective=before.effective | wanted))
    try:
        with full_limit():
            yield
    finally:
        capset(before)


def protect(thing: int) -> None:
    """Makes the file or directory of an O_PATH descriptor read-only in the pen."""
    with raised_capabilities():
        tree = mounts.open_tree(thing, b"")
        try:
            mounts.mount_setattr(tree, turn_on=READ_ONLY)
            mounts.move_mount(tree, thing)
        finally:
            os.close(tree)


@contextmanager
def closed_directory(directory: int, proc: int) -> Iterator[Callable[[], bool]]:
    """Closes a directory: no process but ours finds a name in it meanwhile. The yielded function, called at
    the end, tells whether it stayed closed."""
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
        with raised_capabilities(CAPABILITIES):
            os.fchmod(handle, 0)
            events(watch)
            _wait_for_lock(handle)
            yield stayed_closed if wait_for_lookups(proc) and is_closed() else lambda: False
    finally:
        os.fchmod(handle, mode)
        os.close(watch)
        os.close(handle)


def _wait_for_lock(directory: int) -> None:
    """Waits until the directory's lock was ours, for writing, after all earlier waiters."""
    with suppress(FileNotFoundError):
        os.rmdir(b"pinfold-is-not-here", dir_fd=directory)


def cover(thing: int, stand_in: str) -> None:
    """Mounts an empty stand-in over the thing of a descriptor."""
    with raised_capabilities():
        tree = mounts.open_tree(mounts.AT_FDCWD, stand_in)
        try:
            mounts.mount_setattr(tree, turn_on=READ_ONLY)
            mounts.move_mount(tree, thing)
        finally:
            os.close(tree)


def without_mounts(directory: int) -> int:
    """A descriptor of the directory without the mounts in it; there is no other way to reach it."""
    with raised_capabilities():
        return mounts.open_tree(directory, b"")


def remove_with_mounts(directory: int, name: bytes) -> None:
    """Removes a file with all that is mounted on it: the session's host may have asked for a mount, too."""
    os.fchdir(directory)
    try:
        with raised_capabilities(), suppress(OSError):
            while True:
                mounts.umount(name, mounts.MNT_DETACH | mounts.UMOUNT_NOFOLLOW)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
    finally:
        os.chdir("/")


def is_read_only(thing: int) -> bool:
    """Whether a descriptor was reached through a read-only mount."""
    return bool(os.fstatvfs(thing).f_flag & os.ST_RDONLY)


FILTERED = b"\nSeccomp:\t2\n"
RUNS, UNDER_WAY = b"R", b"RD"
ENOUGH = 100_000
"""Nanoseconds of running after which any lookup has ended."""
OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of our own, which say nothing about the thread."""
PATIENCE, LOOK = 4.0, 0.001
"""Seconds."""


def wait_for_lookups(proc: int) -> bool:
    """Waits until every lookup that a sandboxed thread had under way has ended; False if that takes too long.

    Preconditions: earlier waiters for the directory's lock have got it.
    """
    end = monotonic() + PATIENCE
    waiting = {thread: ran for thread, state, ran in _threads(proc) if state in RUNS}
    while waiting:
        sleep(LOOK)
        if monotonic() > end:
            return False
        for thread in list(waiting):
            state, ran = _state_and_time(proc, thread)
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
    return [
        (thread, *_state_and_time(proc, thread))
        for process in fenced
        for thread in _threads_of(proc, process)
    ]


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


def _state_and_time(proc: int, thread: str) -> tuple[bytes, int]:
    """The state of a thread and how long it has run; state X if it has ended."""
    state = _read(proc, f"{thread}/stat").rpartition(b") ")[2][:1]
    ran = _read(proc, f"{thread}/schedstat").partition(b" ")[0]
    return state or b"X", int(ran or 0)


def _read(proc: int, path: str) -> bytes:
    """Empty if the thread has ended. Raises OSError if we are out of descriptors or memory."""
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
