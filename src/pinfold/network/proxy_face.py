"""The proxy's face: HTTP and SOCKS on one socket, told apart by the first byte, and each one's yes and no.

Most clients want a tunnel to a host that is known to be fine, and say so in one piece: nothing about that has
to be waited for. The rest has a task.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from pinfold.model.gate_protocol import GATE, PROXY_PORT
from pinfold.network import socks
from pinfold.network.connection import Way
from pinfold.network.http_forward import Exchange
from pinfold.network.http_layer import Close, Command, HttpLayer, Open, ToClient
from pinfold.network.http_targets import ESTABLISHED
from pinfold.network.limits import Limits
from pinfold.network.open_connection import Finder
from pinfold.network.refusal import Refusal

_PIECE = 65536
_FAREWELL = 2.0
_LONGEST_FAREWELL = 1 << 20


Tunnelled = bytes
"""It leads somewhere already: what the client has sent for it."""
Served = Callable[[Way], Coroutine[Any, Any, bool]]
"""What there is to do about it: True if it goes on by itself afterwards."""


class ProxyFace:
    def __init__(
        self,
        finder: Finder,
        tell: Callable[[Way], None],
        tunnel: Callable[[Way, bytes], Awaitable[bool]],
        limits: Limits,
    ) -> None:
        """`tell` records a way, `tunnel` lets bytes pass, those first that the client sent already."""
        self._finder, self._tell, self._tunnel, self._limits = finder, tell, tunnel, limits

    def hear(self, way: Way, data: bytes) -> Tunnelled | Served:
        """A client's first bytes. Raises OSError if it is gone."""
        if data[0] in (socks.VERSION_4, socks.VERSION_5):
            return partial(self._socks, data=data)
        layer = HttpLayer()
        commands = layer.from_client(data)
        wanted = next((each for each in commands if isinstance(each, Open)), None)
        if wanted and wanted.is_tunnel:
            way.face = "connect"
            if self._finder.find_at_once(way, wanted.target.host, wanted.target.port):
                way.client.sendall(ESTABLISHED)  # there is room: it is the first that it gets
                return wanted.rest
        return partial(self._http, layer=layer, commands=commands)

    async def _receive(self, way: Way) -> bytes:
        return await asyncio.get_running_loop().sock_recv(way.client, _PIECE)

    async def _send(self, way: Way, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(way.client, data)

    async def _http(self, way: Way, layer: HttpLayer, commands: list[Command]) -> bool:
        wanted: Open | None = None
        async with asyncio.timeout(self._limits.greeting):
            while wanted is None:
                for command in commands:
                    if isinstance(command, Close) and command.message:
                        way.host, way.port = GATE, PROXY_PORT  # it has named no other
                        way.refuse(Refusal(command.why, command.message))
                for command in commands:
                    if isinstance(command, Open):
                        wanted = command
                    elif isinstance(command, ToClient):
                        await self._say_last(way, command.data)
                    elif isinstance(command, Close):
                        return False
                if wanted is None:
                    commands = layer.from_client(await self._receive(way))
        way.face = "connect" if wanted.is_tunnel else "http"
        target, is_plain = wanted.target, not (wanted.is_tunnel or wanted.is_upgrade)
        await self._finder.find(way, target.host, target.port, is_plain=is_plain)
        if way.refusal is not None:
            self._tell(way)  # before the program hears of it: it may be the last thing that it does
            for command in layer.refuse(way.refusal.why, way.refusal.told):
                if isinstance(command, ToClient):
                    await self._say_last(way, command.data)
        elif wanted.is_tunnel:
            await self._send(way, ESTABLISHED)
            return await self._tunnel(way, wanted.rest)
        else:
            await Exchange(way, layer).run(layer.opened(way.via), self._limits)
        return False

    async def _socks(self, way: Way, data: bytes) -> bool:
        way.face = "socks"
        greeting = socks.SocksGreeting()
        asked: socks.Asked | None = None
        async with asyncio.timeout(self._limits.greeting):
            while asked is None:
                if not data:
                    return False
                for event in greeting.feed(data):
                    if isinstance(event, socks.Asked):
                        asked = event
                    else:
                        await self._send(way, event.data)
                    if isinstance(event, socks.Ended):
                        return False
                data = await self._receive(way) if asked is None else b""
        await self._finder.find(way, asked.host, asked.port)
        if way.refusal is not None:
            self._tell(way)
            await self._say_last(way, greeting.refused(way.refusal.why))
            return False
        await self._send(way, greeting.granted())
        return await self._tunnel(way, greeting.rest)

    async def _say_last(self, way: Way, data: bytes) -> None:
        """A last word. What the client still sends is read away, or closing would take the word back."""
        await self._send(way, data)
        way.client.shutdown(socket.SHUT_WR)
        drained = 0
        try:
            async with asyncio.timeout(_FAREWELL):
                while drained < _LONGEST_FAREWELL and (piece := await self._receive(way)):
                    drained += len(piece)
        except TimeoutError:
            return
