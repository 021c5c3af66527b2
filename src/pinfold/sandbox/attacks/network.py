"""Attacks that reach the network and the host's own sockets.

Facts: a network namespace closes addresses and abstract names, but not sockets that have a path. A datagram
names its receiver in each send, so it needs no connect.
"""

import os
import socket

from pinfold.sandbox.attacks.attack import PACKETS, Targets, Untried, attack, prepare

TIMEOUT = 1.0
NETLINK_UEVENT = 15
DOCUMENTATION = ("192.0.2.1", 9)
"""An address that is reserved for documentation (RFC 5737)."""


def connect(address: tuple[str, int]) -> str:
    socket.create_connection(address, TIMEOUT).close()
    return "connected"


def near(path: str) -> str:
    """A socket's name, from its own directory: an address has room for 107 bytes, and a path may be
    longer."""
    directory, name = os.path.split(path)
    os.chdir(directory)
    return name


def connect_unix(path: str, kind: int = socket.SOCK_STREAM) -> str:
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.settimeout(TIMEOUT)
        client.connect(path)
    return "connected"


@attack("connect to a server on the machine's loopback", PACKETS)
def connect_loopback(targets: Targets) -> str:
    return connect(targets.tcp[0])


@attack("connect to a server on the machine's loopback over IPv6", PACKETS)
def connect_loopback_6(targets: Targets) -> str:
    if targets.tcp[1][1] == 0:
        raise Untried("this machine has no ::1")
    return connect(targets.tcp[1])


@attack("connect to a server on the machine's loopback as 0.0.0.0", PACKETS)
def connect_any(targets: Targets) -> str:
    return connect(("0.0.0.0", targets.tcp[0][1]))  # noqa: S104  (the attack is this very address)


@attack("connect to the machine's own address", PACKETS)
def connect_own_address(targets: Targets) -> str:
    if len(targets.tcp) < 3:
        raise Untried("this machine has no address but its loopback")
    return connect(targets.tcp[2])


@attack("send a datagram to the machine's loopback", PACKETS)
def send_datagram(targets: Targets) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"pinfold", ("127.0.0.1", targets.udp))
    return None


@attack("connect with the first byte of data, by MSG_FASTOPEN", PACKETS)
def connect_fast(targets: Targets) -> str:
    with socket.socket() as client:
        client.settimeout(TIMEOUT)
        client.sendto(b"x", socket.MSG_FASTOPEN, tuple(targets.tcp[0]))
    return "connected"


@attack("find a route to the internet", PACKETS)
def find_route(targets: Targets) -> str:
    if len(targets.tcp) < 3:
        raise Untried("this machine has no route itself")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(DOCUMENTATION)
    return "there is one"


@attack("see the machine's network interfaces", PACKETS)
def see_interfaces(_: Targets) -> str | None:
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    if not others and not os.path.exists("/proc/net/route"):
        raise Untried("there is no /proc/net")
    return f"saw {others[0]}" if others else None


@attack("open a raw socket", PACKETS, needs_root=True)
def open_raw(_: Targets) -> str:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "opened it"


@attack("open a packet socket", PACKETS, needs_root=True)
def open_packet(_: Targets) -> str:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    return "opened it"


@attack("open a vsock, which knows no network namespace", PACKETS)
def open_vsock(_: Targets) -> str:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "opened it"


@attack("listen to the kernel's events by netlink", PACKETS)
def open_netlink(_: Targets) -> str:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_UEVENT).close()
    return "opened it"


@attack("open the kernel's crypto by AF_ALG", PACKETS)
def open_crypto(_: Targets) -> str:
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()
    return "opened it"


@attack("connect to a unix socket of the machine", PACKETS)
def connect_stream(targets: Targets) -> str:
    return connect_unix(near(f"{targets.outside}/stream"))


@attack("connect to a seqpacket unix socket of the machine", PACKETS)
def connect_seqpacket(targets: Targets) -> str:
    return connect_unix(near(f"{targets.outside}/seqpacket"), socket.SOCK_SEQPACKET)


@attack("connect to a unix socket of the machine in the workspace", PACKETS)
def connect_in_workspace(targets: Targets) -> str:
    return connect_unix(near(f"{targets.work}/socket"))


@attack("connect to a unix socket of the machine by a symbolic link", PACKETS)
def connect_by_symlink(targets: Targets) -> str:
    link = f"{targets.work}/socket-link"
    prepare(lambda: os.symlink(f"{targets.outside}/stream", link))
    return connect_unix(near(link))


@attack("connect to an abstract unix socket of the machine", PACKETS)
def connect_abstract(targets: Targets) -> str:
    return connect_unix("\0" + targets.abstract)


@attack("send a datagram to a unix socket of the machine", PACKETS)
def send_unix(targets: Targets) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.sendto(b"pinfold", near(f"{targets.outside}/datagram"))
    return None


@attack("send a datagram to a unix socket of the machine from a connected pair", PACKETS)
def send_from_pair(targets: Targets) -> str | None:
    first, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    first.sendmsg([b"pinfold"], [], 0, near(f"{targets.outside}/datagram"))
    return None
