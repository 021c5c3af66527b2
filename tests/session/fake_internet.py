"""A machine of its own for a test: a loopback, a nameserver, servers, and a look at every packet.

The process that becomes it has a network namespace like a machine's, in which sessions make theirs. Names and
servers are on its loopback, so rules have to name 127.0.0.0/8 for them.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pinfold.kernel import capabilities, mounts, namespaces, netlink
from pinfold.network import dns
from tests.network.gate_world import LOOPBACK, make_certificates

NAMES = ("a.test", "git.test", "allowed.test", "xn--bcher-kva.test", "evil.test", "secret.evil.test")
ALLOWED = ("a.test", "git.test", LOOPBACK)
NAMESERVER = "127.0.0.53"
NETWORK, ADDRESS = "203.0.113.0", "203.0.113.9"
"""A network that the machine has, and an address in it."""
SIXTH = "2001:db8::9"
"""An address that it has of IPv6."""
MS_PRIVATE_RECURSIVE = 0x44000
ETH_P_ALL = 3


class Machine:
    def __init__(self) -> None:
        user, group = os.getuid(), os.getgid()
        flags = namespaces.CLONE_NEWNET | namespaces.CLONE_NEWNS
        namespaces.unshare(flags | (namespaces.CLONE_NEWUSER if user else 0))
        if user:
            namespaces.write_id_maps(user, group, inside_uid=user, inside_gid=group)
        netlink.set_up()
        netlink.add_local_route(NETWORK, 24)
        with suppress(OSError):
            netlink.add_local_route(SIXTH, 128)
        mounts.mount("none", "/", "", MS_PRIVATE_RECURSIVE)
        self._bind("/etc/resolv.conf", f"nameserver {NAMESERVER}\noptions timeout:5 attempts:1\n")
        self._bind("/etc/hosts", "127.0.0.1 localhost\n")
        if user:  # programs such as ssh want their user to have a name
            known = Path("/etc/passwd").read_text()
            self._bind("/etc/passwd", f"{known}somebody:x:{user}:{group}::{os.environ['HOME']}:/bin/sh\n")
        self.looked_up: list[str] = []
        self._names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._names.bind((NAMESERVER, 53))
        self._sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._sniffer.setblocking(False)
        if user:
            capabilities.drop_all()
        make_certificates(Path.cwd(), *NAMES)
        Path("files").mkdir()
        threading.Thread(target=self._answer, daemon=True).start()

    @staticmethod
    def manage(text: str) -> None:
        """An administrator's file from now on. In this machine an ordinary user is the only one there is."""
        from pinfold.settings import files, sources

        path = Path.cwd().parent / "home/managed.toml"
        path.write_text(text)
        sources.MANAGED = str(path)
        if os.getuid():
            files._require_owned = lambda *_: None

    @staticmethod
    def _bind(path: str, text: str) -> None:
        ours = Path.cwd().parent / f"home/{os.path.basename(path)}"
        ours.write_text(text)
        mounts.bind(str(ours), os.path.realpath(path))

    def _answer(self) -> None:
        while True:
            data, sender = self._names.recvfrom(4096)
            query = dns.parse_query(data)
            self.looked_up.append(query.name.lower().rstrip("."))
            if self.looked_up[-1] not in NAMES:
                reply = dns.answer(query, dns.DnsCode.NO_SUCH_NAME)
            else:
                found = [socket.inet_aton("127.0.0.1")] if query.kind == dns.A else []
                reply = dns.answer(query, dns.DnsCode.FINE, found, 1)
            self._names.sendto(reply, sender)

    def packets(self) -> list[bytes]:
        """What has gone over the machine's only interface since this was last asked."""
        found = []
        while True:
            try:
                found.append(self._sniffer.recv(65536))
            except BlockingIOError:
                return found


@contextmanager
def banner(host: str = "127.0.0.1") -> Iterator[int]:
    """A server that speaks first, then says everything back: its protocol is its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family, backlog=4096)

    def talk(sock: socket.socket) -> None:
        with sock:
            try:
                sock.sendall(b"WELCOME\n")
                while data := sock.recv(65536):
                    sock.sendall(data)
            except OSError:
                return

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(sock,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
