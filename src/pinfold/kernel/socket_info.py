"""What the kernel tells about sockets: the user at the other end, and the memory that they take.

Facts (unix(7), proc(5), socket(7)):
- SO_PEERCRED is the process that connected, or began to listen, as it was then. The kernel says it.
- The kernel counts the memory of TCP's and UDP's buffers for the machine, in all network namespaces. It is
  short beyond the second number of net.ipv4's `tcp_mem` or `udp_mem`, in pages. SO_MEMINFO tells what one
  socket takes.

Facts about sock_diag(7) (linux/inet_diag.h; tried on 6.18):
- A netlink socket asks about the namespace that it was made in, from any process. It needs no capability.
- `INET_DIAG_SKMEMINFO` has the memory that buffers really take, which may be a hundred times their content.
- A socket that no program holds has no inode: no program has accepted it yet, or it was closed and still has
  something to send, or waits for the other side's end. One that only remembers ports (TIME_WAIT) has a timer
  of its own kind.
- Where the kernel lacks `inet_diag`, the answer to every question is ENOENT.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")


def user_of(sock: socket.socket) -> int:
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    return int(uid)


_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")


def is_memory_short(protocol: str) -> bool:
    most = most_memory(protocol)
    return bool(most) and _memory_taken(protocol) >= most


def most_memory(protocol: str) -> int:
    """From so many bytes on the kernel takes buffers for too many; 0 where it does not tell."""
    with (
        suppress(OSError, ValueError, IndexError),
        open(f"/proc/sys/net/ipv4/{protocol.lower()}_mem") as told,
    ):
        return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def memory_of(sock: socket.socket) -> int:
    """Bytes that wait in it, in both directions, with what the kernel needs for them."""
    try:
        received, _, _, _, ahead, queued, *_ = _MEMINFO.unpack(
            sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        )
    except (OSError, struct.error):  # it is closed, or the kernel tells less
        return 0
    return int(received + ahead + queued)


def most_orphans() -> int:
    """How many TCP connections that no program holds the machine keeps; 0 where the kernel does not tell."""
    with suppress(OSError, ValueError), open("/proc/sys/net/ipv4/tcp_max_orphans") as told:
        return int(told.read())
    return 0


def are_orphans_many() -> bool:
    """Whether it has half of them: from there on it may end some (net/ipv4/tcp_timer.c)."""
    most = most_orphans()
    return bool(most) and _told_of("TCP", "orphan") * 2 >= most


def _memory_taken(protocol: str) -> int:
    """By the buffers of all sockets of the machine."""
    return _told_of(protocol, "mem") * os.sysconf("SC_PAGE_SIZE")


def _told_of(protocol: str, what: str) -> int:
    with suppress(OSError, ValueError), open("/proc/net/sockstat") as told:
        words = next((line.split() for line in told if line.startswith(f"{protocol}:")), [])
        return int(words[words.index(what) + 1])
    return 0


NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_REQUEST, _NLM_F_DUMP = 1, 0x300
_SKMEMINFO = 7
_EVERY_STATE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI48x")
_ANSWER = struct.Struct("=xBBx4s60xI")
_PORTS = struct.Struct("!HH")
_UNSENT = frozenset((4, 5, 9, 11))
"""FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING."""
_TIME_WAIT = 3
"""Of timers."""
_ATTRIBUTE = struct.Struct("=HH")
_MEMORY = struct.Struct("=I4xI8xI4x4x4x")
"""Received, (limit), sent and not yet freed, (limit), set aside, (written), (options), (backlog)."""
_LARGEST = 1 << 18


class Socket(NamedTuple):
    inode: int
    """0: no program holds it."""
    local: int
    remote: int
    """Ports."""
    is_orphan: bool
    """Whether it was closed, and counts for the machine until its other side has heard that."""
    memory: int
    """Bytes."""


def sockets_of(link: socket.socket, protocol: int) -> list[Socket]:
    """All of a protocol. Raises OSError where the kernel does not tell.

    Preconditions: `link` is a netlink socket of NETLINK_SOCK_DIAG.
    """
    found: list[Socket] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        body = _QUESTION.pack(family, protocol, 1 << _SKMEMINFO - 1, _EVERY_STATE)
        flags = _NLM_F_REQUEST | _NLM_F_DUMP
        link.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, flags, 1, 0) + body)
        for answer in _answers(link):
            state, timer, ports, inode = _ANSWER.unpack_from(answer)
            local, remote = _PORTS.unpack(ports)
            is_orphan = not inode and state in _UNSENT and timer != _TIME_WAIT
            found.append(Socket(inode, local, remote, is_orphan, _memory(answer[_ANSWER.size :])))
    return found


def _answers(link: socket.socket) -> Iterator[bytes]:
    while True:
        data = link.recv(_LARGEST)
        while data:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", data, _HEADER.size)
                raise OSError(-code, "sock_diag")
            yield data[_HEADER.size : length]
            data = data[(length + 3) & ~3 :]


def _memory(attributes: bytes) -> int:
    while len(attributes) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == _SKMEMINFO:
            return sum(_MEMORY.unpack_from(attributes, _ATTRIBUTE.size))
        attributes = attributes[(length + 3) & ~3 :]
    return 0
