"""Lookups that are under way: when has each one ended that began before now?

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
from time import monotonic, sleep

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
