"""Carries out the commands of `http_layer` on two sockets."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from pinfold.network.connection import GateConnection
from pinfold.network.http_layer import Close, HttpCommand, HttpLayer, Switched, ToClient, ToServer
from pinfold.network.limits import GateLimits
from pinfold.network.refusal import Refusal
from pinfold.network.relay import SocketPump, run
from pinfold.network.socket_wait import wait_peer_gone

_PIECE, _SMALL = 65536, 2048
_FEW, _SPARSE = 16, 64
"""After a piece with more commands than `_FEW`, and more than one for each `_SPARSE` bytes, the next read is
small. A body in chunks of one byte would otherwise keep all other connections waiting."""


class HttpForward:
    """Requests and answers between two sockets, until either side is done."""

    def __init__(self, connection: GateConnection, layer: HttpLayer) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection, self._layer = connection, layer
        self._client, self._server = connection.client, connection.server
        self._wanted = asyncio.Event()
        self._is_over = self._is_switched = False

    async def run(self, commands: Sequence[HttpCommand], limits: GateLimits) -> None:
        """Runs until the end, beginning with `commands`, which the layer already gave."""
        await self._obey(commands)
        # While a response is outstanding, nothing is read from the client, so its end would not show.
        parts = self._from_client(), self._from_server(), wait_peer_gone(self._client, limits.gone)
        tasks = {asyncio.create_task(part) for part in parts}
        done: set[asyncio.Task[None]] = set()
        before = -1
        try:
            while not done and before != (before := self._connection.sent + self._connection.received):
                done, _ = await asyncio.wait(tasks, timeout=limits.idle, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._is_switched:
            await self._pump(limits)
        elif not done:
            self._connection.ended = f"no data for {limits.idle:g} seconds"

    async def _pump(self, limits: GateLimits) -> None:
        up, down = SocketPump(self._client, self._server), SocketPump(self._server, self._client)
        up.start()
        down.start()
        try:
            self._connection.ended = await run([up, down], limits)
        finally:
            self._connection.sent += up.moved
            self._connection.received += down.moved

    async def _from_client(self) -> None:
        size = _PIECE
        while not self._is_over:
            await self._wanted.wait()
            self._wanted.clear()
            data = await self._loop.sock_recv(self._client, size)
            commands = self._layer.from_client(data)
            size = _next_size(data, commands)
            await self._obey(commands)
            if not data and not self._is_over:  # it may still read
                await asyncio.Event().wait()

    async def _from_server(self) -> None:
        size = _PIECE
        while not self._is_over and not self._is_switched:
            data = await self._loop.sock_recv(self._server, size)
            commands = self._layer.from_server(data)
            size = _next_size(data, commands)
            await self._obey(commands)
            self._is_over = self._is_over or not data

    async def _obey(self, commands: Sequence[HttpCommand]) -> None:
        for command in commands:  # before the client learns of it, which may be gone
            if isinstance(command, Close) and command.message:
                self._connection.refuse(Refusal(command.why, command.message))
        for command in commands:
            if isinstance(command, ToServer):
                self._connection.sent += len(command.data)
                with suppress(
                    ConnectionError
                ):  # it may have answered and closed: the response is still there
                    await self._loop.sock_sendall(self._server, command.data)
            elif isinstance(command, ToClient):
                self._connection.received += len(command.data)
                await self._loop.sock_sendall(self._client, command.data)
            elif isinstance(command, Switched):
                self._is_switched = True
            elif isinstance(command, Close):
                self._is_over = True
        # After a switch the pumps read both directions: a cancelled read could lose bytes.
        if self._layer.wants_client and not self._is_switched:
            self._wanted.set()


def _next_size(data: bytes, commands: Sequence[HttpCommand]) -> int:
    """How much to read at once after this."""
    return _SMALL if len(commands) > max(_FEW, len(data) // _SPARSE) else _PIECE
