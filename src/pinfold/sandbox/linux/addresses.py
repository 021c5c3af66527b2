"""What the bytes of a socket address say. Pure: bytes in, bytes out.

Facts about addresses (unix(7), net/socket.c, net/unix/af_unix.c):
- The first two bytes are the family, in the machine's order; the call's length says where the address ends.
- A length below 0 or above 128 is EINVAL before anybody looks; 0 goes to the family, which refuses it.
- A unix address that is only its family has no name: bind chooses an abstract one. One that goes on with a
  NUL is abstract, NULs and all; it belongs to the network namespace. Any other is a path, up to the first NUL
  or the end: 108 bytes need no NUL. A unix address of more than 110 bytes is EINVAL.
"""

import struct

from pinfold.kernel.sockets import LONGEST_ADDRESS

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

LONGEST_UNIX = 110

_FAMILY = struct.Struct("=H")


def length_of(argument: int) -> int | None:
    """The length that a call was given in a register; None if no address has it."""
    length = argument & 0xFFFFFFFF
    return length if length <= LONGEST_ADDRESS else None


def family_of(address: bytes) -> int | None:
    return _FAMILY.unpack_from(address)[0] if len(address) >= _FAMILY.size else None


def unix_path(address: bytes) -> bytes | None:
    """The path that an address names; None if it names none: another family, abstract, without a name."""
    if family_of(address) != AF_UNIX or len(address) > LONGEST_UNIX:
        return None
    return address[_FAMILY.size :].partition(b"\0")[0] or None


def unix_address(path: bytes) -> bytes:
    return _FAMILY.pack(AF_UNIX) + path + b"\0"
