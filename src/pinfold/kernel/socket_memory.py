"""How much memory sockets take, and how much all of the machine may have (proc(5), socket(7)).

Facts: the kernel counts the memory of TCP's and UDP's buffers for the machine, in all network namespaces. It
is short beyond the second number of net.ipv4's `tcp_mem` or `udp_mem`, in pages. SO_MEMINFO tells what one
socket takes.
"""

import os
import socket
import struct
from contextlib import suppress

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
