"""The proxy's face: HTTP and SOCKS on one socket, distinguished by the first byte, and their answers.

Most clients want a tunnel to a host that is known to be allowed, and say so in one piece. The gate serves
those without a task, and starts a task for all others. A client that has sent nothing yet has no task either.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from pinfold.model.gate_protocol import GATE, PROXY_PORT
from pinfold.network import socks
from pinfold.network.connection import GateConnection
from pinfold.network.http_forward import HttpForward
from pinfold.network.http_heads import ESTABLISHED
from pinfold.network.http_layer import Close, HttpCommand, HttpLayer, Open, ToClient
from pinfold.network.limits import GateLimits
from pinfold.network.open_connection import ConnectionOpener
from pinfold.network.refusal import Refusal

_PIECE = 65536
_FAREWELL = 2.0
_LONGEST_FAREWELL = 1 << 20


Tunnelled = bytes
"""The tunnel is open: the bytes that the client already sent into it."""
Served = Callable[[GateConnection], Coroutine[Any, Any, bool]]
"""Serves the connection; returns True if it goes on by itself afterwards."""


class ProxyFace:
    def __init__(
        self,
        opener: ConnectionOpener,
        report: Callable[[GateConnection], None],
        tunnel: Callable[[GateConnection, bytes], Awaitable[bool]],
        limits: GateLimits,
    ) -> None:
        """`report` records a connection, `tunnel` lets bytes pass, first those that already came."""
        self._opener, self._report, self._tunnel, self._limits = opener, report, tunnel, limits

    def begin(self, connection: GateConnection, data: bytes) -> Tunnelled | Served:
        """Takes a client's first bytes. Raises OSError if the client is gone."""
        if data[0] in (socks.VERSION_4, socks.VERSION_5):
            return partial(self._socks, data=data)
        layer = HttpLayer()
        commands = layer.from_client(data)
        wanted = next((each for each in commands if isinstance(each, Open)), None)
        if wanted and wanted.is_tunnel:
            connection.face = "connect"
            if self._opener.open_at_once(connection, wanted.target.host, wanted.target.port):
                connection.client.sendall(ESTABLISHED)  # cannot block: it is the first thing sent
                return wanted.rest
        return partial(self._http, layer=layer, commands=commands)

    async def _receive(self, connection: GateConnection) -> bytes:
        return await asyncio.get_running_loop().sock_recv(connection.client, _PIECE)

    async def _send(self, connection: GateConnection, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(connection.client, data)

    async def _http(self, connection: GateConnection, layer: HttpLayer, commands: list[HttpCommand]) -> bool:
        wanted: Open | None = None
        async with asyncio.timeout(self._limits.greeting):
            while wanted is None:
                for command in commands:
                    if isinstance(command, Close) and command.message:
                        connection.host, connection.port = GATE, PROXY_PORT  # it has named no other host
                        connection.refuse(Refusal(command.why, command.message))
                for command in commands:
                    if isinstance(command, Open):
                        wanted = command
                    elif isinstance(command, ToClient):
                        await self._send_last(connection, command.data)
                    elif isinstance(command, Close):
                        return False
                if wanted is None:
                    commands = layer.from_client(await self._receive(connection))
        connection.face = "connect" if wanted.is_tunnel else "http"
        target, is_plain = wanted.target, not (wanted.is_tunnel or wanted.is_upgrade)
        await self._opener.open(connection, target.host, target.port, is_plain=is_plain)
        if connection.refusal is not None:
            self._report(connection)  # before the program learns of it, which may end then
            for command in layer.refuse(connection.refusal.why, connection.refusal.told):
                if isinstance(command, ToClient):
                    await self._send_last(connection, command.data)
        elif wanted.is_tunnel:
            await self._send(connection, ESTABLISHED)
            return await self._tunnel(connection, wanted.rest)
        else:
            await HttpForward(connection, layer).run(layer.opened(connection.via), self._limits)
        return False

    async def _socks(self, connection: GateConnection, data: bytes) -> bool:
        connection.face = "socks"
        greeting = socks.SocksGreeting()
        asked: socks.SocksRequest | None = None
        async with asyncio.timeout(self._limits.greeting):
            while asked is None:
                if not data:
                    return False
                for event in greeting.feed(data):
                    if isinstance(event, socks.SocksRequest):
                        asked = event
                    else:
                        await self._send(connection, event.data)
                    if isinstance(event, socks.SocksRejection):
                        return False
                data = await self._receive(connection) if asked is None else b""
        await self._opener.open(connection, asked.host, asked.port)
        if connection.refusal is not None:
            self._report(connection)
            await self._send_last(connection, greeting.refused(connection.refusal.why))
            return False
        await self._send(connection, greeting.granted())
        return await self._tunnel(connection, greeting.rest)

    async def _send_last(self, connection: GateConnection, data: bytes) -> None:
        """Sends the last bytes, and drains what the client still sends: else closing would discard them."""
        await self._send(connection, data)
        connection.client.shutdown(socket.SHUT_WR)
        drained = 0
        try:
            async with asyncio.timeout(_FAREWELL):
                while drained < _LONGEST_FAREWELL and (piece := await self._receive(connection)):
                    drained += len(piece)
        except TimeoutError:
            return


_PIECE = 65536


class IdleClient:
    """A proxy client that has sent nothing yet. The gate waits for it without a task."""

    def __init__(
        self, connection: GateConnection, seconds: float, heard: Callable[["IdleClient", bytes], None]
    ) -> None:
        """Calls `heard` once: with the client's first bytes, or with none if they do not come in time."""
        self.connection, self._heard = connection, heard
        self._loop = asyncio.get_running_loop()
        self._number = connection.client.fileno()
        self._timer = self._loop.call_later(seconds, self._end, b"")
        self._loop.add_reader(self._number, self._read)

    def stop(self) -> None:
        """Stops waiting."""
        self._timer.cancel()
        self._loop.remove_reader(self._number)

    def _read(self) -> None:
        try:
            data = self.connection.client.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._end(data)

    def _end(self, data: bytes) -> None:
        self.stop()
        self._heard(self, data)
