"""The sockets of a network namespace, and how much of the kernel's memory each takes, by sock_diag(7).

Facts (linux/inet_diag.h; tried on 6.18):
- A netlink socket asks about the namespace that it was made in, in whatever process. It needs no capability.
- `INET_DIAG_SKMEMINFO` has the memory that buffers really take, which may be a hundred times their content.
- A socket that no program holds has no inode: nobody has accepted it yet, or it was closed and still has
  something to send, or waits for the other side's end. One that only remembers ports (TIME_WAIT) has a timer
  of its own kind.
- Where the kernel lacks `inet_diag`, the answer to every question is ENOENT.
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

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
