"""Netlink: the little a new network namespace needs, said to the kernel directly.

Facts about rtnetlink (netlink(7), rtnetlink(7)):
- A new network namespace has one interface, `lo`, with index 1, down. Up, it gets 127.0.0.0/8 and
  ::1 by itself.
- Changing an interface or a route needs CAP_NET_ADMIN in the namespace's user namespace.
- With NLM_F_ACK every request is answered by NLMSG_ERROR, whose errno is 0 when all went well.
- A route of type `local` in table 255 makes every address of its prefix this machine's own; with a prefix of
  0 bits that is every address there is ("AnyIP").
- A rule sends packets of one protocol to a table of their own (FRA_IP_PROTO, Linux 4.17).
- RTM_GETROUTE for one address needs no capability; the answer's type says whether the address is the
  machine's own, however it came by it. Where there is no route, ENETUNREACH is the answer.
- How much of a TCP stream goes through an interface in one piece is an attribute for each family
  (IFLA_GSO_MAX_SIZE, Linux 5.19, and IFLA_GSO_IPV4_MAX_SIZE, 6.3); a new interface has 64 kB, and `lo` takes
  up to 524,280. An older kernel refuses the first and passes over the second.
- Everything is in the machine's byte order but the addresses; attributes are padded to 4 bytes.
"""

import os
import socket
import struct

LOOPBACK = 1
"""The index of `lo`."""

_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 1, 4, 0x200, 0x400
_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_GETROUTE, _RTM_NEWRULE = 16, 20, 24, 26, 32
_FRA_PRIORITY, _FRA_IP_PROTO, _FR_ACT_TO_TABLE = 6, 22, 1
_IFF_UP = 1
_IFLA_GSO_MAX_SIZE, _IFLA_GSO_IPV4_MAX_SIZE = 41, 63
_RTA_DST, _RTA_OIF = 1, 4
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL = 255, 3, 254, 2
_RTN_UNICAST = 1
_HEADER = struct.Struct("=IHHII")


def set_up(interface: int = LOOPBACK) -> None:
    """Brings an interface up."""
    _request("RTM_NEWLINK", _RTM_NEWLINK, 0, struct.pack("=BxHiII", 0, 0, interface, _IFF_UP, _IFF_UP))


def set_largest_piece(size: int) -> None:
    """Lets TCP hand over this much at once on loopback, in both families. Older kernels raise OSError."""
    for kind in (_IFLA_GSO_IPV4_MAX_SIZE, _IFLA_GSO_MAX_SIZE):
        body = struct.pack("=BxHiII", 0, 0, LOOPBACK, 0, 0) + _attribute(kind, struct.pack("=I", size))
        _request("RTM_NEWLINK", _RTM_NEWLINK, 0, body)


def add_address(address: str) -> None:
    """Gives loopback one more IPv4 address, of no network."""
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBi", socket.AF_INET, 32, 0, 0, LOOPBACK)
    body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    _request("RTM_NEWADDR", _RTM_NEWADDR, _NLM_F_CREATE | _NLM_F_EXCL, body)


def add_local_route(network: str, prefix: int, table: int = _RT_TABLE_LOCAL) -> None:
    """Makes every address of a network local to this namespace; in another table, to whom a rule says."""
    family = socket.AF_INET6 if ":" in network else socket.AF_INET
    route = struct.pack(
        "=BBBBBBBBI", family, prefix, 0, 0, table, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, 0
    )
    route += _attribute(_RTA_DST, socket.inet_pton(family, network))
    route += _attribute(_RTA_OIF, struct.pack("=i", LOOPBACK))
    _request("RTM_NEWROUTE", _RTM_NEWROUTE, _NLM_F_CREATE | _NLM_F_EXCL, route)


def add_rule(family: int, protocol: int, table: int, priority: int) -> None:
    """What is sent by a protocol looks for its way in this table, too."""
    rule = struct.pack("=BBBBBBBBI", family, 0, 0, 0, table, 0, 0, _FR_ACT_TO_TABLE, 0)
    rule += _attribute(_FRA_PRIORITY, struct.pack("=I", priority))
    rule += _attribute(_FRA_IP_PROTO, struct.pack("=B", protocol))
    _request("RTM_NEWRULE", _RTM_NEWRULE, _NLM_F_CREATE | _NLM_F_EXCL, rule)


def is_own_address(address: str) -> bool:
    """Whether packets to an address stay on this machine, or go to all of a network."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    route = struct.pack("=BBBBBBBBI", family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0)
    kind, body = _exchange(_RTM_GETROUTE, _NLM_F_REQUEST, route + _attribute(_RTA_DST, packed))
    return kind == _RTM_NEWROUTE and body[7] != _RTN_UNICAST


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _request(name: str, kind: int, flags: int, body: bytes) -> None:
    answered, answer = _exchange(kind, flags | _NLM_F_REQUEST | _NLM_F_ACK, body)
    (code,) = struct.unpack_from("=i", answer)
    if answered != _NLMSG_ERROR or code:
        raise OSError(-code, f"{name}: {os.strerror(-code)}")


def _exchange(kind: int, flags: int, body: bytes) -> tuple[int, bytes]:
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as link:
        link.bind((0, 0))
        link.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        answer = link.recv(65536)
    _, answered, _, _, _ = _HEADER.unpack_from(answer)
    return answered, answer[_HEADER.size :]
