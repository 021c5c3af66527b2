"""What passes through an open connection: bytes, if the host names agree.

INVARIANT: nothing that names a host reaches a server other than the one that was asked for. The gate checks
TLS by its hello and HTTP request by request; other protocols name no host.

The server may speak first (ssh, smtp): its bytes pass from the start, while the gate holds the client's first
ones.
"""

import asyncio
import socket
from collections.abc import Callable

from pinfold.model.hosts import canonical, is_address, is_same
from pinfold.network.client_hello import ClientHello, HelloReader, SecondHello
from pinfold.network.connection import GateConnection
from pinfold.network.http_forward import HttpForward
from pinfold.network.http_heads import HttpTarget
from pinfold.network.http_layer import HttpLayer
from pinfold.network.limits import GateLimits
from pinfold.network.refusal import Malformed, Refusal, RefusalKind
from pinfold.network.relay import SocketPump, run
from pinfold.network.sniff import FirstBytes, Protocol
from pinfold.network.socket_wait import wait_readable

_PIECE = 65536


def name_mismatch(hello: ClientHello, connection: GateConnection) -> str:
    """Why the names in a TLS hello forbid it; empty if they agree."""
    host, may_be_unnamed = connection.host, connection.ruling.unnamed_tls
    if hello.is_encrypted and not may_be_unnamed:
        return f"the TLS hello to {host} hides a server name (ECH), so it cannot be checked; turn ECH off"
    if hello.server_name is None:
        # PostgreSQL's own clients before 14 send no name.
        if is_address(host) or may_be_unnamed or connection.has_asked_for_tls:
            return ""
        return (
            f"the TLS hello to {host} has no server name (SNI), so it cannot be checked; send the server name"
        )
    try:
        name = canonical(hello.server_name)
    except ValueError as error:
        return f"the TLS hello to {host} has an invalid server name: {error}"
    return "" if is_same(name, host) else f"the TLS hello names {name}, but the connection is to {host}"


async def pass_bytes(
    connection: GateConnection, first: bytes, limits: GateLimits, down: SocketPump | None = None
) -> None:
    """Preconditions: both sockets are there. `first` is what the client sent already; `down` moves the
    server's bytes, if it has begun already."""
    if connection.via:
        await _pass_requests(connection, first, limits)
        return
    client, server = connection.client, connection.server
    loop = asyncio.get_running_loop()
    down, up = down or SocketPump(server, client), SocketPump(client, server)
    if connection.early:
        await loop.sock_sendall(client, connection.early)
    down.start()
    try:
        protocol, held = await _inspect(connection, first, limits, up, down)
        if protocol is Protocol.HTTP and connection.refusal is None:
            down.stop()
            layer = HttpLayer(HttpTarget(connection.host, connection.port))
            await HttpForward(connection, layer).run(layer.from_client(held), limits)
            return
        if connection.refusal is None:
            await _let_through(connection, held, limits, up)
            up.start()
            connection.ended = await run([up, down], limits)
    except OSError:
        connection.ended = "the connection broke"
    finally:
        down.stop()
        up.stop()
        connection.sent += up.moved
        connection.received += down.moved + len(connection.early)
    if connection.refusal is not None:
        connection.reset()


async def _pass_requests(connection: GateConnection, first: bytes, limits: GateLimits) -> None:
    """Passes requests to a proxy. INVARIANT: it gets nothing from the client but checked requests."""
    layer = HttpLayer(HttpTarget(connection.host, connection.port), connection.via)
    await HttpForward(connection, layer).run(layer.from_client(first) if first else (), limits)


async def _inspect(
    connection: GateConnection, data: bytes, limits: GateLimits, up: SocketPump, down: SocketPump
) -> tuple[Protocol | None, bytes]:
    """Reads until the client's protocol is known; returns it with the bytes that are still held."""
    first, held, has_passed = FirstBytes(), b"", False
    has_paused = False
    while True:
        protocol = first.feed(data)
        held += data
        connection.has_asked_for_tls = connection.has_asked_for_tls or first.has_asked_for_tls
        if has_paused or has_passed or not first.is_doubtful:
            protocol = first.as_it_is
        if protocol is Protocol.TLS and has_passed:
            connection.refuse(split_start_refusal(connection))
        elif protocol is Protocol.TLS:
            held += await _hello(connection, held, limits, up)
            return protocol, held
        elif protocol is Protocol.PROXY:
            connection.refuse(proxy_header_refusal(connection))
        elif protocol is Protocol.HTTP and (has_passed or down.moved):
            connection.refuse(split_start_refusal(connection))
        elif protocol is Protocol.HTTP and held.lstrip().upper().startswith(b"PRI "):
            connection.refuse(
                _mismatch(f"HTTP/2 without TLS to {connection.host} cannot be checked; use TLS or HTTP/1.1")
            )
        if protocol is not None:
            return protocol, held
        if held and (has_paused or not first.is_doubtful):
            held, has_passed = (
                await _let_through(connection, held, limits, up),
                has_paused or not first.is_waiting,
            )
        piece = await _next_piece(connection.client, limits.pause if held else limits.idle, down)
        data, has_paused = piece or b"", piece is None
        if has_paused and not held:
            connection.ended = f"no data for {limits.idle:g} seconds"
            return None, b""
        if piece == b"":
            if first.as_it_is is Protocol.HTTP:
                connection.refuse(
                    _mismatch(f"a request to {connection.host} ends before the end of its first line")
                )
            return None, held


async def _let_through(connection: GateConnection, held: bytes, limits: GateLimits, up: SocketPump) -> bytes:
    try:
        sent = connection.server.send(held) if held else 0
    except (BlockingIOError, InterruptedError):
        sent = 0
    if sent < len(held):
        async with asyncio.timeout(limits.idle):
            await asyncio.get_running_loop().sock_sendall(connection.server, held[sent:])
    up.moved += len(held)
    return b""


async def _next_piece(client: socket.socket, patience: float, down: SocketPump) -> bytes | None:
    """The client's next bytes, empty at its end; None if they do not come in time."""
    while True:
        before = down.moved
        try:
            async with asyncio.timeout(patience):
                await wait_readable(client)
            return client.recv(_PIECE)
        except BlockingIOError:
            continue
        except TimeoutError:
            if down.moved == before:
                return None


async def _hello(connection: GateConnection, held: bytes, limits: GateLimits, up: SocketPump) -> bytes:
    """Reads the whole TLS hello and judges it; returns what it read beyond `held`."""
    reader, data, more = HelloReader(), held, b""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limits.greeting):
            while (hello := reader.feed(data)) is None:
                data = await loop.sock_recv(connection.client, _PIECE)
                if not data:
                    raise Malformed("the TLS hello is incomplete")
                more += data
    except (Malformed, TimeoutError) as error:
        connection.refuse(broken_hello_refusal(connection, f"{error}" or "it did not come in time"))
        return more

    def refuse(refusal: Refusal) -> bool:
        connection.refuse(refusal)
        up.break_off()
        return False

    refusal = judge_hello(hello, connection)
    if refusal:
        connection.refuse(refusal)
    else:
        watch_second_hello(reader.second(hello), connection, up, refuse)
    return more


def watch_second_hello(
    second: SecondHello, connection: GateConnection, up: SocketPump, refuse: Callable[[Refusal], bool]
) -> bool:
    """Inspects the client's bytes behind a hello for a second one; whether those so far may pass."""

    def inspect(data: bytes) -> bool:
        try:
            hello = second.feed(data)
        except Malformed as error:
            return refuse(broken_hello_refusal(connection, f"{error}"))
        refusal = judge_hello(hello, connection) if hello else None
        up.inspect = None if second.is_over else inspect
        return refuse(refusal) if refusal else True

    return inspect(b"")


def judge_hello(hello: ClientHello, connection: GateConnection) -> Refusal | None:
    """Why TLS may not pass; None if it may."""
    said = name_mismatch(hello, connection)
    return _mismatch(said) if said else None


def split_start_refusal(connection: GateConnection) -> Refusal:
    return _mismatch(f"the first bytes to {connection.host} came in pieces, so they cannot be checked")


def proxy_header_refusal(connection: GateConnection) -> Refusal:
    return _mismatch(
        f"a PROXY-protocol header was sent to {connection.host}; the connection cannot be inspected"
    )


def broken_hello_refusal(connection: GateConnection, said: str) -> Refusal:
    return Refusal(RefusalKind.MALFORMED, f"the TLS hello to {connection.host} is broken: {said}")


def _mismatch(message: str) -> Refusal:
    return Refusal(RefusalKind.MISMATCHED, message)
