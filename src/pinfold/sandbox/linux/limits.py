"""What the kernel counts by user, for all programs: of that a pen's have less than those who hold the fence.

Facts (getrlimit(2), unix(7), net/unix, kernel/ucount.c):
- Descriptors that were sent and that nobody has taken yet are counted, in whichever namespace. While there
  are more than the soft RLIMIT_NOFILE of who sends, that one can send none (ETOOMANYREFS).
- Signals that wait, and timers, are counted too, and shared memory that is locked; each program is held to
  its own RLIMIT_SIGPENDING and RLIMIT_MEMLOCK. So are processes, but for root's.
- A user namespace has the limits of who made it: its programs get nothing more of these once all programs of
  the user together have as much.

So programs that may have as many as everybody else could keep every session of the user from starting
anything. Each message may be more than was free, by 253 descriptors, so what is kept is not just one.

Accepted: the user's other programs, with a usual soft limit of 1,024, can send none as long as a command has
more under way.
"""

import os
import resource
from _thread import RLock
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 65_536
"""Descriptors. More would make programs slow that close every descriptor there could be."""
RESERVE = 64
"""Descriptors that a warden has for its mounts alone: what commands make it hold can take all others."""
_changing = RLock()
_raised = 0
"""How many need that now."""
_usual: list[int] = []
"""The soft limit before the first of them."""


def make_room() -> None:
    """As many descriptors as this user may have."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if most == resource.RLIM_INFINITY else min(most, MOST)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def keep_reserve() -> None:
    """From here on this process has `RESERVE` descriptors less, but while it is `raised`."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now - RESERVE, now // 2), most))


@contextmanager
def raised() -> Iterator[None]:
    """For this moment this process has as many descriptors as it could have. No thread waits for another."""
    global _raised  # a process has one such limit
    with _changing:
        if not _raised:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _usual.append(soft)
        _raised += 1
    try:
        yield
    finally:
        with _changing:
            _raised -= 1
            if not _raised:
                hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
                resource.setrlimit(resource.RLIMIT_NOFILE, (_usual.pop(), hard))


def leave_room() -> None:
    """This process, and whatever it starts, has less than others of the user for good."""
    _lower(resource.RLIMIT_NOFILE, MOST)
    for kind in (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MEMLOCK):
        _lower(kind, resource.RLIM_INFINITY)
    # Who makes music may have real-time priorities: with one, a command would leave init no turn.
    for kind in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        resource.setrlimit(kind, (0, 0))


def leave_room_to_host() -> None:
    """The programs of all user namespaces that are made so have less, together, than the user has."""
    for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_SIGPENDING, resource.RLIMIT_MEMLOCK):
        _lower(kind, resource.RLIM_INFINITY)


def processes() -> tuple[int, int] | None:
    """How many processes and threads this user has, and with how many of them those of pens get no more; None
    where nothing bounds them."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if os.getuid() == 0 or most == resource.RLIM_INFINITY:
        return None
    return sum(_threads_of_ours(name) for name in os.listdir("/proc") if name.isdigit()), _share_of(most)


def _threads_of_ours(process: str) -> int:
    try:
        with open(f"/proc/{process}/status", "rb") as file:  # its name is any bytes
            told = dict(line.split(b":", 1) for line in file)
    except OSError:  # it has ended
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
