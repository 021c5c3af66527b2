"""Whether a program listens on a port of this machine's loopback, as proc(5) reports it, without connecting.

Facts about /proc/net/tcp and tcp6: after a line of titles, each socket is a line whose second word is its
address and port in hexadecimal digits, and whose fourth is its state; 0A is one that listens. An IPv4 address
is one number in the machine's order, an IPv6 address four of them.
"""

import sys
from contextlib import suppress

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"


def has_listener(port: int) -> bool:
    """Whether a program of this machine accepts connections to a port of its loopback."""
    ends = tuple(f"{address}:{port:04X}" for address in _LOOPBACK)
    for table in _TABLES:
        with suppress(OSError), open(table) as lines:
            for line in lines:
                words = line.split(maxsplit=4)
                if words[3] == _LISTENS and words[1] in ends:
                    return True
    return False


def _spelled(*words: bytes) -> str:
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


_ZERO, _ONE = bytes(4), b"\0\0\0\1"
_LOOPBACK = (
    _spelled(_ZERO),
    _spelled(b"\x7f\0\0\1"),
    _spelled(_ZERO, _ZERO, _ZERO, _ZERO),
    _spelled(_ZERO, _ZERO, _ZERO, _ONE),
    _spelled(_ZERO, _ZERO, b"\0\0\xff\xff", b"\x7f\0\0\1"),
)
