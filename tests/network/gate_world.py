"""A gate on loopback with its own names, servers and rules, for tests that run for real."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

from pinfold.model.decision import Verdict
from pinfold.model.request import Connect
from pinfold.model.settings import NetworkAccess, NetworkSettings, Settings
from pinfold.network.gate import Gate
from pinfold.network.host_decision import ConnectionOutcome, HostDecision
from pinfold.network.limits import GateLimits
from pinfold.network.upstream import Upstream
from pinfold.policy.connect import judge_connect
from pinfold.policy.hosts import parse_pattern
from tests.patience import PATIENCE
from tests.policy.world import facts

LOOPBACK = "127.0.0.0/8"
FACTS = facts()
LISTED = ("network_allow", "network_deny")
TAG = "pen.7"
"""Whose connections these are."""
RESET = struct.pack("=ii", 1, 0)
"""Of SO_LINGER: closing sends a reset instead of an end."""


def ruling(host: str, port: int, settings: Settings) -> HostDecision:
    """What policy says, as the gate is told it."""
    reason = judge_connect(Connect(host, port), settings, FACTS).reasons[0]
    said = f"{reason.message}; {reason.remedy}" if reason.remedy else reason.message
    return HostDecision(reason.verdict, said, reason.rule if reason.step in LISTED else "")


def rules_of(settings: Settings) -> Callable[[str, int | None], HostDecision]:
    def decide(host: str, port: int | None) -> HostDecision:
        if port is not None:
            return ruling(host, port, settings)
        entries = (*settings.network.allow, *settings.network.deny)
        ports = {parse_pattern(entry).port or 9 for entry in entries} | {9}
        found = [ruling(host, each, settings) for each in sorted(ports)]
        return next((each for each in found if each.verdict is not Verdict.DENY), found[0])

    return decide


class World:
    """What is true for one gate, and what it did."""

    def __init__(
        self,
        *allow: str,
        deny: Sequence[str] = (),
        access: str = "rules",
        names: Mapping[str, Sequence[str]] | None = None,
        limits: GateLimits = GateLimits(),  # noqa: B008
        upstream: Upstream | None = None,
        own: Sequence[str] = (),
        local: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        network = NetworkSettings(access=NetworkAccess(access), allow=allow, deny=tuple(deny))
        self._rules = rules_of(Settings(network=network))
        self.names = names or {}
        self.limits, self.upstream, self.own, self.local = limits, upstream, own, local
        self.records: list[ConnectionOutcome] = []
        self.looked_up: list[str] = []
        self.asked: list[tuple[str, int, str]] = []
        self.answer: Callable[[str, int], Awaitable[HostDecision]] = self._nobody
        self.gate: Gate = None  # type: ignore[assignment]
        self.port = 0
        self.clients: list[Client] = []
        self.tags: Iterator[str] = repeat(TAG)
        """Whose the connections to the proxy are, one after the other."""

    async def _nobody(self, host: str, port: int) -> HostDecision:
        raise LookupError("no terminal, agent dialog or `pinfold web` page is open to ask")

    async def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        return self._rules(host, port)

    async def open(
        self, host: str, port: int, tag: str
    ) -> tuple[HostDecision, "asyncio.Future[HostDecision] | None"]:
        ruling = await self.decide(host, port, tag)
        if ruling.verdict is not Verdict.ASK:
            return ruling, None
        self.asked.append((host, port, tag))
        return ruling, asyncio.ensure_future(self.answer(host, port))

    async def look_up(self, name: str) -> Sequence[str]:
        self.looked_up.append(name)
        if name not in self.names:
            raise OSError(2, "no such name")
        return self.names[name]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["World"]:
        self.gate = Gate(
            self.decide, self.open, self.records.append, self.look_up, limits=self.limits,
            upstream=self.upstream, local=self.local, is_own=lambda address: address in self.own,
        )  # fmt: skip
        listener = listening()
        self.port = listener.getsockname()[1]
        accepting = self.accept_proxy(listener)
        try:
            yield self
        finally:
            accepting.cancel()
            listener.close()
            await self.gate.close()
            await asyncio.sleep(0)
            for client in self.clients:
                client.close()

    def accept_proxy(self, listener: socket.socket) -> "asyncio.Task[None]":
        """Hands the gate what connects there, as a pen's warden does with a connection to the proxy."""

        async def take(client: socket.socket) -> None:
            self.gate.take(client, next(self.tags))

        return accept(listener, take)

    def accept_carried(self, listener: socket.socket) -> "asyncio.Task[None]":
        """The same with connections whose own address says what they were meant for."""

        async def carry(client: socket.socket) -> None:
            host, port = client.getsockname()[:2]
            way = await self.gate.open(host, port, TAG)
            if way.refusal is None:
                self.gate.join(way, client)
            else:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()

        return accept(listener, carry)

    async def connect(self) -> "Client":
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.clients[-1]

    async def recorded(self, count: int = 1) -> list[ConnectionOutcome]:
        """The records, once there are this many."""
        await until(lambda: len(self.records) >= count)
        return self.records


class Client:
    """A client by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), PATIENCE)

    async def hear_all(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), PATIENCE)

    async def hear_head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)

    async def tunnel(self, host: str, port: int) -> bytes:
        await self.say(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        return await self.hear_head()

    def close(self) -> None:
        self.writer.close()


def accept(
    listener: socket.socket, begin: Callable[[socket.socket], Coroutine[Any, Any, None]]
) -> "asyncio.Task[None]":
    listener.setblocking(False)

    async def serve() -> None:
        async with asyncio.TaskGroup() as begun:
            while True:
                client, _ = await asyncio.get_running_loop().sock_accept(listener)
                begun.create_task(begin(client))

    return asyncio.create_task(serve())


def listening(host: str = "127.0.0.1", backlog: int = 4096) -> socket.socket:
    return socket.create_server((host, 0), backlog=backlog)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def server(talk: Talk, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server's port."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=context, backlog=4096)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        # What asyncio 3.11 accepts in the moment that the server is closed, it never closes.
        asyncio.get_running_loop().remove_reader(running.sockets[0].fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        running.close()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request with its own head."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        body = head + await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()


def run(test: Coroutine[Any, Any, None]) -> None:
    """Everything a test starts has ended when it has."""

    async def main() -> None:
        async with asyncio.timeout(60):
            await test
        try:
            await until(lambda: len(asyncio.all_tasks()) == 1)
        except TimeoutError:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            raise AssertionError(f"left over: {left}") from None

    asyncio.run(main())


def make_certificates(folder: Path, *names: str) -> None:
    """`ca.pem`, and `server.pem` with its key, for these names."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)

    def made(subject: str, issuer: str, key: Any, signer: Any, *extensions: Any) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
        )
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        return builder.sign(signer, hashes.SHA256())

    usage = dict.fromkeys(
        ("key_encipherment", "content_commitment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only"), False,
    )  # fmt: skip
    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = made(
        "test root", "test root", root, root,
        (x509.BasicConstraints(True, None), True),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), True),
    )  # fmt: skip
    certificate = made(
        names[0], "test root", leaf, root,
        (x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **usage), True),
    )  # fmt: skip
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    key = leaf.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(certificate.public_bytes(pem) + key)


def server_context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context
