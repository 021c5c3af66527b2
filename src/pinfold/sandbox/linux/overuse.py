"""Finds the command that takes too much of what the kernel counts for a whole user or the whole machine.

`room`, `rooms` and `filter_budget` bound most of that beforehand. Two things cannot be, so the session
looks at them every two seconds, and ends the command that has taken them:

- The kernel counts what epoll watches by user, in every program and namespace (fs.epoll.max_user_watches).
  Once a command has taken all, no program of the user can watch anything more.
- It counts the memory of TCP's and UDP's buffers for the machine, in all network namespaces (`tcp_mem` and
  `udp_mem` of net.ipv4: from when on it is short, in pages). Beyond that, connections of the machine stall.

Facts (epoll(7), proc(5)):
- Nothing tells how many watches there are, but each epoll's `fdinfo` lists its own.
- sock_diag tells what a socket takes, by its inode; the links in /proc/PID/fd tell whose it is.
- Who may administer a network namespace may ask a socket which one is its own (SIOCGSKNS).

Accepted: data that a command has sent to itself and not read is not attributed to it.
"""

import fcntl
import os
import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import ENOSPC
from functools import partial
from resource import prlimit
from typing import NamedTuple

from pinfold.kernel.socket_diag import memory_of_sockets
from pinfold.kernel.socket_memory import is_memory_short, most_memory
from pinfold.model.codes import ViolationCode
from pinfold.model.violation import Violation
from pinfold.sandbox.linux.pid_one import PidOne
from pinfold.sandbox.linux.replies import FIRST_TAG, RLIMIT_RTTIME

Usage = Counter[int]
"""Of each process, by its pid."""
WATCHES = "/proc/sys/fs/epoll/max_user_watches"
EPOLL = "anon_inode:[eventpoll]"
SIOCGSKNS = 0x894C
SHARE = 4
"""A command with less than this part of the whole goes on, however short the resource is."""


class Meter(NamedTuple):
    """One thing that programs share."""

    what: str
    is_short: Callable[[], bool]
    most: Callable[[], int]
    """How much all programs may have."""
    measure: Callable[[], Usage]
    """How much each process of the session has."""


class Overuse(NamedTuple):
    """A command that took too much."""

    tag: int
    violation: Violation


class OveruseFinder:
    """For the commands of one session."""

    def __init__(self, pid_one: PidOne) -> None:
        self.pid_one = pid_one
        self.meters = [
            Meter("epoll watches", lambda: not has_watch(), most_watches, self._watches),
            *(
                Meter(
                    f"bytes of {name} buffers",
                    partial(is_memory_short, name),
                    partial(most_memory, name),
                    partial(self._memory, protocol),
                )
                for name, protocol in (("TCP", socket.IPPROTO_TCP), ("UDP", socket.IPPROTO_UDP))
            ),
        ]

    def find(self) -> Iterator[Overuse]:
        """The commands that take too much now. As a rule there are none, and the search takes some 100 us."""
        for meter in self.meters:
            if meter.is_short() and (heaviest := self._heaviest(meter)):
                yield heaviest

    def _heaviest(self, meter: Meter) -> Overuse | None:
        by_command: Usage = Counter()
        example: dict[int, int] = {}
        for pid, used in meter.measure().items():
            tag = _tag(pid)
            if used and 0 < tag < FIRST_TAG:
                by_command[tag] += used
                example[tag] = pid
        most = meter.most()
        for tag, used in by_command.most_common(1):
            if used * SHARE >= most:
                why = f"ended: it used {used:,} {meter.what}, of {most:,} that all programs share"
                pid = example[tag]
                return Overuse(tag, Violation("", "", "", why, _name(pid), pid, False, ViolationCode.OVERUSE))
        return None

    def _watches(self) -> Usage:
        return Counter({pid: sum(map(_lines_of_watches, _epolls(pid))) for pid in self._processes()})

    def _memory(self, protocol: int) -> Usage:
        with self.pid_one.diagnosis() as link:
            taken = memory_of_sockets(link, protocol)
        found = {pid: set(_sockets(pid)) for pid in self._processes()}
        return Counter({pid: sum(taken.pop(inode, 0) for inode in ours) for pid, ours in found.items()})

    def _processes(self) -> Iterator[int]:
        with self.pid_one.diagnosis() as link:
            network = fcntl.ioctl(link, SIOCGSKNS)
        ours = os.fstat(network).st_ino
        os.close(network)
        for name in os.listdir("/proc"):
            if name.isdigit() and _network_of(int(name)) == ours:
                yield int(name)


def has_watch() -> bool:
    """Whether this user can watch something more by epoll."""
    pipe = os.pipe2(os.O_CLOEXEC)
    try:
        with select.epoll() as watcher:
            watcher.register(pipe[0])
    except OSError as error:
        return error.errno != ENOSPC
    finally:
        for end in pipe:
            os.close(end)
    return True


def most_watches() -> int:
    with open(WATCHES) as file:
        return int(file.read())


def _tag(pid: int) -> int:
    try:
        return prlimit(pid, RLIMIT_RTTIME)[1]
    except OSError:
        return 0


def _network_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:  # it has ended, or is another user's
        return 0


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read()).rstrip("\n")
    except OSError:
        return ""


def _links(pid: int) -> Iterator[tuple[str, str]]:
    """A process's descriptors, and what each leads to."""
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield number, os.readlink(f"/proc/{pid}/fd/{number}")


def _epolls(pid: int) -> Iterator[str]:
    return (f"/proc/{pid}/fdinfo/{number}" for number, link in _links(pid) if link == EPOLL)


def _lines_of_watches(told: str) -> int:
    with suppress(OSError), open(told, "rb") as file:
        return sum(line.startswith(b"tfd:") for line in file)
    return 0


def _sockets(pid: int) -> Iterator[int]:
    for _, link in _links(pid):
        if link.startswith("socket:["):
            yield int(link[len("socket:[") : -1])
