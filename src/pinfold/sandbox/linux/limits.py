"""Resources that the kernel counts per user: the processes of pens get three quarters, Pinfold's own the
rest.

Facts (getrlimit(2), unix(7), net/unix, kernel/ucount.c):
- The kernel counts descriptors that were sent and not received yet, in all namespaces. While there are more
  than the sender's soft RLIMIT_NOFILE, it can send none (ETOOMANYREFS).
- It also counts pending signals, timers and locked shared memory, and holds each program to its own
  RLIMIT_SIGPENDING and RLIMIT_MEMLOCK. It counts processes too, but not root's.
- A user namespace has the limits of the process that made it. Its programs get no more of these once all
  programs of the user together have as much.

If programs in pens could have as many as all others, they could keep every session of the user from starting
anything. Each message may exceed what was free, by 253 descriptors, so more than one is reserved.

Accepted: the user's other programs, with a usual soft limit of 1,024, can send no descriptor while a command
has more under way.
"""

import os
import resource
from _thread import RLock
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 65_536
"""Descriptors. With more, programs that close every possible descriptor would be slow."""
RESERVE = 64
"""Descriptors that a warden reserves for its mounts: what commands make it hold can take all others."""
_changing = RLock()
_users = 0
"""How many blocks need the raised limit now."""
_usual_limit: list[int] = []
"""The soft limit before the first of them."""


def raise_descriptor_limit() -> None:
    """Raises the limit to as many descriptors as this user may have."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if most == resource.RLIM_INFINITY else min(most, MOST)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def reserve_descriptors() -> None:
    """From here on this process has `RESERVE` descriptors less, except while it is `full_limit`."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now - RESERVE, now // 2), most))


@contextmanager
def full_limit() -> Iterator[None]:
    """Meanwhile this process may have as many descriptors as its hard limit. No thread waits for another."""
    global _users  # a process has one such limit
    with _changing:
        if not _users:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _usual_limit.append(soft)
        _users += 1
    try:
        yield
    finally:
        with _changing:
            _users -= 1
            if not _users:
                hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
                resource.setrlimit(resource.RLIMIT_NOFILE, (_usual_limit.pop(), hard))


def limit_commands() -> None:
    """This process, and every process it starts, gets less than the user's others for good."""
    _lower(resource.RLIMIT_NOFILE, MOST)
    for kind in (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MEMLOCK):
        _lower(kind, resource.RLIM_INFINITY)
    # A user may have real-time priorities, for audio: with one, a command would starve init.
    for kind in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        resource.setrlimit(kind, (0, 0))


def limit_user_namespaces() -> None:
    """All programs of the user namespaces that are made from here on have less, together, than the user."""
    for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_SIGPENDING, resource.RLIMIT_MEMLOCK):
        _lower(kind, resource.RLIM_INFINITY)


def process_count() -> tuple[int, int] | None:
    """How many processes and threads this user has, and the number at which those of pens get no more; None
    if nothing limits them."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if os.getuid() == 0 or most == resource.RLIM_INFINITY:
        return None
    return sum(_threads_of_ours(name) for name in os.listdir("/proc") if name.isdigit()), _share_of(most)


def _threads_of_ours(process: str) -> int:
    try:
        with open(f"/proc/{process}/status", "rb") as file:  # the process's name may be any bytes
            told = dict(line.split(b":", 1) for line in file)
    except OSError:  # the process has ended
        return 0
    return int(told[b"Threads"]) if int(told[b"Uid"].split()[0]) == os.getuid() else 0


def _share_of(most: int) -> int:
    return most // 4 * 3


def _lower(kind: int, most: int) -> None:
    try:
        now, hard = resource.getrlimit(kind)
        known = [each for each in (hard, most) if each != resource.RLIM_INFINITY]
        if known:
            share = _share_of(min(known))
            soft = share if now == resource.RLIM_INFINITY else min(now, share)
            resource.setrlimit(kind, (soft, share))
    except OSError as error:
        raise OSError(error.errno, f"setrlimit: {error.strerror}") from None
