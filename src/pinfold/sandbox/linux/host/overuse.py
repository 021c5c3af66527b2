"""Finds the command that takes too much of what the kernel counts for a whole user or the whole machine.

`limits`, `session_root` and `filter_budget` bound most of that beforehand. Some things cannot be, so the
session looks at them every two seconds, and ends the command that has taken them:

- The kernel counts what epoll watches by user, in every program and namespace (fs.epoll.max_user_watches).
  Once a command has taken all, no program of the user can watch anything more.
- It counts inotify queues by user (fs.inotify.max_user_instances). A session has half of them at most, so two
  can take all. Then editors see no change, and a warden sees less of what the host replaces.
- It counts the memory of TCP's and UDP's buffers for the machine, in all network namespaces (`tcp_mem` and
  `udp_mem` of net.ipv4: from when on it is short, in pages). Beyond that, connections of the machine stall.
- It counts connections that were closed and are not through (net.ipv4.tcp_max_orphans) for the machine.
  Beyond that, each connection that any program closes is reset.
- It counts open files for the machine (fs.file-max). Beyond that, only root opens any.

Facts (epoll(7), proc(5)):
- Nothing tells how many watches there are, but each epoll's `fdinfo` lists its own.
- sock_diag tells what a socket takes, by its inode; the links in /proc/PID/fd tell whose it is. A socket that
  no program holds counts for the process with the port at either end: its listener, or the other side.
- Every process of a session descends from its init.
- A process of the same uid cannot look into one that is not dumpable, or that runs a program which cannot be
  read. Nothing but its descriptors' number is known of it then (`FDSize`). So where the resource is used up
  and no other command explains it, the command of such processes is ended.

Accepted: descriptors that are queued in a socket are not attributed to any command.
"""

import os
import select
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EMFILE, ENOSPC
from functools import partial
from resource import prlimit
from typing import NamedTuple

from pinfold.kernel import inotify
from pinfold.kernel.socket_info import (
    Socket,
    are_orphans_many,
    is_memory_short,
    most_memory,
    most_orphans,
    sockets_of,
)
from pinfold.model.codes import ViolationCode
from pinfold.model.violation import Violation
from pinfold.sandbox.linux.host.init_client import InitClient
from pinfold.sandbox.linux.protocol.command import FIRST_TAG, RLIMIT_RTTIME

Usage = Counter[int]
"""Of each process, by its pid; of those that cannot be looked into together, by `UNSEEN`."""
UNSEEN = 0
WATCHES = "/proc/sys/fs/epoll/max_user_watches"
EPOLL, INOTIFY = "anon_inode:[eventpoll]", "anon_inode:inotify"
QUEUES = "/proc/sys/fs/inotify/max_user_instances"
FILES, FILE_MAX = "/proc/sys/fs/file-nr", "/proc/sys/fs/file-max"
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

    def __init__(self, init: InitClient, pid: int) -> None:
        """`pid` is that of the session's init."""
        self.init, self.pid = init, pid
        self.meters = [
            Meter("epoll watches", lambda: not has_watch(), most_watches, self._watches),
            Meter("inotify queues", lambda: not has_queue(), most_queues, self._queues),
            *(
                Meter(
                    f"bytes of {name} buffers",
                    partial(is_memory_short, name),
                    partial(most_memory, name),
                    partial(self._memory, protocol),
                )
                for name, protocol in (("TCP", socket.IPPROTO_TCP), ("UDP", socket.IPPROTO_UDP))
            ),
            Meter("connections that were closed unsent", are_orphans_many, most_orphans, self._orphans),
            Meter("open files", are_files_many, most_files, self._files),
        ]

    def find(self) -> Iterator[Overuse]:
        """The commands that take too much now. As a rule there are none, and the search takes some 100 us."""
        for meter in self.meters:
            if meter.is_short() and (heaviest := self._heaviest(meter)):
                yield heaviest

    def _heaviest(self, meter: Meter) -> Overuse | None:
        usage, most = meter.measure(), meter.most()
        unseen = usage.pop(UNSEEN, 0)
        why = f"ended: it used {{:,}} {meter.what}, of {most:,} that all programs share"
        if heaviest := _most_of(usage):
            tag, pid, used = heaviest
            if used * SHARE >= most:
                return _overuse(tag, pid, why.format(used))
        if unseen * SHARE >= most and (shut := _most_of(self._shut())):
            tag, pid, _ = shut
            return _overuse(tag, pid, f"ended: {meter.what} are used up, and its programs hide what they use")
        return None

    def _shut(self) -> Usage:
        """Processes of commands that cannot be looked into."""
        return Counter(pid for pid in self._processes() if _tag(pid) and _is_shut(pid))

    def _watches(self) -> Usage:
        return self._told(lambda pid: sum(map(_lines_of_watches, _told_of(pid, EPOLL))), most_watches())

    def _queues(self) -> Usage:
        return self._told(lambda pid: sum(1 for _ in _told_of(pid, INOTIFY)), most_queues())

    def _told(self, count: Callable[[int], int], most: int) -> Usage:
        """What the descriptors of each process tell; a process that hides them may have all."""
        usage = Counter({pid: count(pid) for pid in self._processes()})
        usage[UNSEEN] = most if self._shut() else 0
        return usage

    def _memory(self, protocol: int) -> Usage:
        return self._of_sockets(protocol, lambda each: each.memory)

    def _orphans(self) -> Usage:
        return self._of_sockets(socket.IPPROTO_TCP, lambda each: int(each.is_orphan))

    def _of_sockets(self, protocol: int, used: Callable[[Socket], int]) -> Usage:
        with self.init.diagnosis() as link:
            sockets = sockets_of(link, protocol)
        processes = self._processes()
        holders = {inode: pid for pid in processes for inode in _sockets(pid)}
        # Those with a program last: a port that one holds is not an orphan's own.
        ports = {each.local: holders.get(each.inode, UNSEEN) for each in sorted(sockets) if each.inode}
        usage: Usage = Counter()
        for each in sockets:
            holder = holders.get(each.inode) if each.inode else ports.get(each.local, ports.get(each.remote))
            usage[holder or UNSEEN] += used(each)
        return usage

    def _files(self) -> Usage:
        return Counter({pid: _size_of_table(pid) for pid in self._processes()})

    def _processes(self) -> list[int]:
        """All that descend from init."""
        children: dict[int, list[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                children.setdefault(_parent(int(name)), []).append(int(name))
        found = [self.pid]
        for pid in found:
            found += children.get(pid, ())
        return found[1:]


def _most_of(usage: Usage) -> tuple[int, int, int] | None:
    """The command that has most, one of its processes, and how much it has; None if no command has any."""
    by_command: Usage = Counter()
    example: dict[int, int] = {}
    for pid, used in usage.items():
        if used and (tag := _tag(pid)):
            by_command[tag] += used
            example[tag] = pid
    for tag, used in by_command.most_common(1):
        return tag, example[tag], used
    return None


def _overuse(tag: int, pid: int, why: str) -> Overuse:
    return Overuse(tag, Violation("", "", "", why, _name(pid), pid, False, ViolationCode.OVERUSE))


def most_files() -> int:
    with open(FILE_MAX) as file:
        return int(file.read())


def are_files_many() -> bool:
    """Whether three quarters of what the machine has are open."""
    with open(FILES) as file:
        return int(file.read().split()[0]) * 4 >= most_files() * 3


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


def has_queue() -> bool:
    """Whether this user can make another inotify queue."""
    try:
        os.close(inotify.create())
    except OSError as error:
        return error.errno != EMFILE
    return True


def most_queues() -> int:
    with open(QUEUES) as file:
        return int(file.read())


def most_watches() -> int:
    with open(WATCHES) as file:
        return int(file.read())


def _tag(pid: int) -> int:
    """Of the command that it belongs to; 0 of one that belongs to none, as a spawner (`command_tags`)."""
    try:
        tag = prlimit(pid, RLIMIT_RTTIME)[1]
    except OSError:
        return 0
    return tag if 0 < tag < FIRST_TAG and (FIRST_TAG - tag) % 2 == 0 else 0


def _parent(pid: int) -> int:
    return int(_status_of(pid, b"PPid") or 0)


def _size_of_table(pid: int) -> int:
    """About as many as the descriptors that it has, rounded up."""
    return int(_status_of(pid, b"FDSize") or 0)


def _status_of(pid: int, field: bytes) -> bytes:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # its name is any bytes
            return file.read().partition(b"\n" + field + b":")[2].partition(b"\n")[0].strip()
    except OSError:  # it has ended
        return b""


def _is_shut(pid: int) -> bool:
    """Whether it runs, and what it has open cannot be seen."""
    try:
        os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


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


def _told_of(pid: int, kind: str) -> Iterator[str]:
    return (f"/proc/{pid}/fdinfo/{number}" for number, link in _links(pid) if link == kind)


def _lines_of_watches(told: str) -> int:
    with suppress(OSError), open(told, "rb") as file:
        return sum(line.startswith(b"tfd:") for line in file)
    return 0


def _sockets(pid: int) -> Iterator[int]:
    for _, link in _links(pid):
        if link.startswith("socket:["):
            yield int(link[len("socket:[") : -1])
