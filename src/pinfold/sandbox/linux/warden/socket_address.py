"""Reads the bytes of a socket address. Pure: bytes in, bytes out.

Facts about addresses (unix(7), net/socket.c, net/unix/af_unix.c):
- The first two bytes are the family, in the machine's byte order. The call's length says where the address
  ends.
- An internet address needs 16 bytes, an IPv6 address 24. To connect, a zero address means loopback.
- A length below 0 or above 128 is EINVAL before anything is read; length 0 goes to the family, which refuses
  it.
- A unix address of only a family has no name: bind chooses an abstract one. If a NUL follows, the name is
  abstract, with all its NULs, and belongs to the network namespace. Anything else is a path, up to the first
  NUL or the end: 108 bytes need no NUL. A unix address of more than 110 bytes is EINVAL.
"""

import socket
import struct
from typing import NamedTuple

from pinfold.kernel.sockets import LONGEST_ADDRESS
from pinfold.model.gate_protocol import OWN

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

LONGEST_UNIX = 110

_FAMILY = struct.Struct("=H")
_PORT = struct.Struct("!H")
_MAPPED = bytes(10) + b"\xff\xff"


def length_of(argument: int) -> int | None:
    """The length that a call has in a register; None if no address can have it."""
    length = argument & 0xFFFFFFFF
    return length if length <= LONGEST_ADDRESS else None


def family_of(address: bytes) -> int | None:
    return _FAMILY.unpack_from(address)[0] if len(address) >= _FAMILY.size else None


def unix_path(address: bytes) -> bytes | None:
    """The path that an address names; None for another family, an abstract name or no name."""
    if family_of(address) != AF_UNIX or len(address) > LONGEST_UNIX:
        return None
    return address[_FAMILY.size :].partition(b"\0")[0] or None


def unix_address(path: bytes) -> bytes:
    return _FAMILY.pack(AF_UNIX) + path + b"\0"


def abstract_name(address: bytes) -> bytes | None:
    """The abstract name, with its first NUL; empty if bind is to choose one. None if the address has no such
    name."""
    if family_of(address) != AF_UNIX or len(address) > LONGEST_UNIX:
        return None
    name = address[_FAMILY.size :]
    return name if name[:1] in (b"", b"\0") else None


def abstract_address(name: bytes) -> bytes:
    return _FAMILY.pack(AF_UNIX) + name


class Peer(NamedTuple):
    """The other end that an internet address names."""

    family: int
    """AF_INET also for an IPv4 address mapped into IPv6."""
    host: str
    port: int


def internet_peer(address: bytes) -> Peer | None:
    """None if it is no complete internet address; then the kernel gives its own error."""
    family = family_of(address)
    if family == AF_INET and len(address) >= 16:
        (port,) = _PORT.unpack_from(address, 2)
        return Peer(AF_INET, socket.inet_ntop(socket.AF_INET, address[4:8]), port)
    if family == AF_INET6 and len(address) >= 24:
        (port,) = _PORT.unpack_from(address, 2)
        packed = address[8:24]
        if packed.startswith(_MAPPED):
            return Peer(AF_INET, socket.inet_ntop(socket.AF_INET, packed[12:]), port)
        return Peer(AF_INET6, socket.inet_ntop(socket.AF_INET6, packed), port)
    return None


def is_inside(host: str) -> bool:
    """Whether an address belongs to the session itself."""
    return is_loopback(host) or host.startswith(OWN)


def is_loopback(host: str) -> bool:
    """Whether connecting to it means this machine, or the pen's own loopback."""
    return host.startswith(("127.", "0.")) or host in ("::1", "::")


def with_port(address: bytes, port: int) -> bytes:
    """An internet address with another port."""
    return address[:2] + _PORT.pack(port) + address[4:]
