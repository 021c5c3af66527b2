"""The gate's link to a pen's warden, which has connections opened and hands over the programs' sides.

All messages of a pen come through its warden, and no program of the pen can imitate it. So the tag of each
connection is true: it names the pen and the command that the connection belongs to.
"""

import asyncio
import os
import socket
from contextlib import suppress

from pinfold.model.gate_protocol import (
    DROP,
    JOIN,
    LONGEST,
    NAMES,
    OPEN,
    PROXY,
    GateAnswer,
    GateRequest,
    parse_request,
)
from pinfold.network.connection import GateConnection
from pinfold.network.gate import Gate
from pinfold.network.limits import GateLimits
from pinfold.network.refusal import Refusal

AT_ONCE = 64
"""How many messages are read before other tasks run."""


class WardenLink:
    def __init__(self, gate: Gate, warden: socket.socket, name: str, limits: GateLimits) -> None:
        self._gate, self._warden, self._name, self._limits = gate, warden, name, limits
        self._loop = asyncio.get_running_loop()
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._opened: dict[int, GateConnection] = {}
        warden.setblocking(False)
        self._loop.add_reader(warden, self._read)

    def _read(self) -> None:
        for _ in range(AT_ONCE):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._warden, LONGEST, 1, socket.MSG_CMSG_CLOEXEC)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self.close()
                return
            self._handle(parse_request(data), descriptors)

    def _handle(self, request: GateRequest, descriptors: list[int]) -> None:
        if request.kind == OPEN:
            connection = self._gate.open_at_once(request.host, request.port, self._tag(request))
            if connection:
                self._answer(request, connection)
            else:
                self._opening[request.number] = self._loop.create_task(self._open(request))
        elif request.kind == JOIN and descriptors and request.number in self._opened:
            self._gate.join(self._opened.pop(request.number), socket.socket(fileno=descriptors.pop()))
        elif request.kind == DROP:
            self._drop(request.number)
        elif request.kind == PROXY and descriptors:
            self._gate.take(socket.socket(fileno=descriptors.pop()), self._tag(request))
        elif request.kind == NAMES:
            self._gate.resolver.learn(request.port, self._tag(request))
        for descriptor in descriptors:
            os.close(descriptor)

    def _tag(self, request: GateRequest) -> str:
        return f"{self._name}.{request.tag:x}"

    async def _open(self, request: GateRequest) -> None:
        try:
            connection = await self._gate.open(request.host, request.port, self._tag(request))
        finally:
            self._opening.pop(request.number, None)
        self._answer(request, connection)

    def _answer(self, request: GateRequest, connection: GateConnection) -> None:
        if connection.refusal:
            refusal = connection.refusal
            self._send(_refusing(request.number, connection.host, refusal))
        else:
            self._opened[request.number] = connection
            self._loop.call_later(self._limits.held, self._drop, request.number)
            self._send(GateAnswer(request.number, 0, connection.host))

    def _send(self, answer: GateAnswer) -> None:
        # A warden that leaves thousands of answers unread is broken; its connections are dropped later.
        with suppress(OSError):
            self._warden.send(answer.encoded())

    def _drop(self, number: int) -> None:
        task = self._opening.get(number)
        if task:
            task.cancel()
        connection = self._opened.pop(number, None)
        if connection:
            self._gate.drop(connection)

    def close(self) -> None:
        """The pen has ended: open connections go on to their end, and no new ones are opened."""
        if self._warden.fileno() < 0:
            return
        self._loop.remove_reader(self._warden)
        self._warden.close()
        for number in (*self._opening, *self._opened):
            self._drop(number)


def _refusing(number: int, host: str, refusal: Refusal) -> GateAnswer:
    return GateAnswer(
        number,
        refusal.why.errno,
        host,
        refusal.rule,
        refusal.answered,
        refusal.message,
        refusal.why.code,
        refusal.remedy,
        refusal.asked_at,
    )
