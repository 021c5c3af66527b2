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


def _memory_taken(protocol: str) -> int:
    """By the buffers of all sockets of the machine."""
    with suppress(OSError, ValueError), open("/proc/net/sockstat") as told:
        words = next((line.split() for line in told if line.startswith(f"{protocol}:")), [])
        return int(words[words.index("mem") + 1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
