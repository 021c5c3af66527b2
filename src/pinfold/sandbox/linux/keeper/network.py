"""What a session's network needs once one of its pens has a way out: every address becomes local.

Facts, tried on 6.18:
- With `local default dev lo` in both families all that a program sends stays in the namespace, as before. But
  a listener can be bound to any address, and one datagram socket gets the questions to any nameserver. For
  a local destination the kernel takes it as the source too, 127.0.0.0/8 apart, so replies find back.
- Of each IPv6 address that something is sent to the kernel makes a neighbour, of half a kilobyte, which on
  `lo` none of its bounds count and nothing forgets for a minute; no cgroup pays for them. Datagrams to ever
  new addresses took 80 MB a second. Of IPv4 there is one neighbour for all of `lo`.
- getaddrinfo with AI_ADDRCONFIG finds nothing where there are only loopback's addresses, hence one more.
- Which address a datagram was sent to is kept only if that was asked for before it came, and the first
  question comes before there is a gate to ask.
- The namespace's other interfaces are none, so nothing leaves it by any of this.
- With pieces of 512 kB instead of 64, TCP over this loopback takes about half the processor time; client,
  relay and server of a stream from the machine's own loopback, about a fifth less together (on a busy
  machine). The gain in elapsed time was within the noise.
- All of it asks for capabilities over the namespace, which a pen's builder has and its warden has no more.

What this means for us: of IPv6 all addresses are local to TCP, whose connects the warden makes one by one,
and to datagrams only those of the machine's nameservers.
"""

import errno
import os
import socket
from contextlib import suppress

from pinfold.kernel import netlink
from pinfold.kernel.files import RESOLVE_IN_ROOT, openat2
from pinfold.model.gate_protocol import GATE
from pinfold.sandbox.linux.init.session_root import HOST

DNS = 53
WAITING = 1 << 20
"""Bytes of questions; the kernel caps it as for any process."""
LARGEST_PIECE = 524_280
_IP_PKTINFO = 8
OUTWARD = 100
"""The table of what TCP reaches, and the place of its rule: behind the table of what is local anyway."""
RESOLV = "etc/resolv.conf"
LONGEST = 1 << 16


def open_outlet() -> socket.socket | None:
    """Prepares the network of this process; the socket that hears its questions about names.

    None if another pen of the session has done so before.
    """
    try:
        netlink.add_address(GATE)
    except FileExistsError:
        return None
    netlink.add_local_route("0.0.0.0", 0)  # noqa: S104  (a network, of all addresses)
    with suppress(OSError):  # a machine without IPv6 has no program that uses it
        netlink.add_local_route("::", 0, table=OUTWARD)
        netlink.add_rule(socket.AF_INET6, socket.IPPROTO_TCP, OUTWARD, OUTWARD)
        for address in nameservers():
            netlink.add_local_route(address, 128)
    with suppress(OSError):  # an older kernel is slower, and that is all
        netlink.set_largest_piece(LARGEST_PIECE)
    resolver = _resolver()
    # They wait here while the gate starts. Programs repeat, seconds later, a question that found no room.
    resolver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WAITING)
    return resolver


def _resolver() -> socket.socket:
    try:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EAFNOSUPPORT:
            raise
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        sock.bind(("", DNS))
        return sock
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    sock.bind(("::", DNS))
    return sock


def nameservers(root: str = HOST) -> list[str]:
    """The nameservers of this machine with IPv6 addresses, whose questions we answer (resolv.conf(5))."""
    try:
        above = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with open(
                openat2(above, RESOLV, os.O_RDONLY | os.O_NONBLOCK, resolve=RESOLVE_IN_ROOT), "rb"
            ) as file:
                lines = file.read(LONGEST).decode("ascii", "replace").splitlines()
        finally:
            os.close(above)
    except OSError:
        return []
    named = [words[1] for words in map(str.split, lines) if words[:1] == ["nameserver"] and len(words) > 1]
    return list(dict.fromkeys(address for address in named if _is_ipv6(address)))


def _is_ipv6(address: str) -> bool:
    try:
        return bool(socket.inet_pton(socket.AF_INET6, address))
    except OSError:
        return False
