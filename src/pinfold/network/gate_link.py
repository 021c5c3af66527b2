"""The gate's end of the line to its session: the rules, the person and the journal are at the other end.

INVARIANT: without that line there is no gate. When it ends, so does every connection, and the process.
"""

import asyncio
import resource
import socket
from collections import deque
from typing import Any

from pinfold.network import link_messages
from pinfold.network.connection import pen_of
from pinfold.network.dns_lookup import load_hosts, system_look_up
from pinfold.network.gate import Gate
from pinfold.network.host_decision import ConnectionOutcome, DecisionCache, HostDecision
from pinfold.network.limits import GateLimits
from pinfold.network.link_messages import Message
from pinfold.network.upstream import Upstream
from pinfold.network.warden_link import WardenLink
from pinfold.network.wildcard_budget import WildcardBudget


class Control:
    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._unsent: deque[bytes] = deque()
        self._is_full = False
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._gate: Gate | None = None
        self._limits = GateLimits()
        self._standing = DecisionCache()
        self._pens: list[WardenLink] = []
        self._catching_up: set[asyncio.Task[None]] = set()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Until the other end is gone."""
        self._sock.setblocking(False)
        self._loop.add_reader(self._sock, self._read)
        await self.ended
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        for answer in self._answers.values():
            answer.cancel()
        for pen in self._pens:
            pen.close()
        if self._gate:
            await self._gate.close()

    # What the gate needs

    async def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        known = self.known(host, port, tag)
        if known:
            return known
        asked, when = {"host": host, "port": port, "tag": tag}, self._standing.now()
        ruling = link_messages.ruling_from(await self._ask({"decide": asked}))
        self._standing.keep((pen_of(tag), host, port), ruling, when)
        return ruling

    def known(self, host: str, port: int | None, tag: str) -> HostDecision | None:
        """A ruling that still stands. First we hear what the session has said by now: it may have changed."""
        while self._hear():
            pass
        return self._standing.find((pen_of(tag), host, port)) if tag else None

    async def ask(self, host: str, port: int, tag: str, ruling: HostDecision) -> HostDecision:
        asked = {"host": host, "port": port, "tag": tag, "ruling": link_messages.ruling_to(ruling)}
        return link_messages.ruling_from(await self._ask({"ask": asked}, can_withdraw=True))

    async def reach(self, port: int) -> socket.socket:
        """A socket of the session's own network. Raises OSError if there is none to be had."""
        sockets: list[socket.socket] = await self._ask({"reach": port})
        if not sockets:
            raise ConnectionRefusedError(f"port {port} of the session cannot be reached")
        return sockets[0]

    def record(self, outcome: ConnectionOutcome) -> None:
        self._send({"record": link_messages.outcome_to(outcome)})

    async def _ask(self, message: Message, can_withdraw: bool = False) -> Any:
        self._number += 1
        number = self._number
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[number] = answer
        self._send({**message, "number": number})
        try:
            return await answer
        except asyncio.CancelledError:
            if can_withdraw:
                self._send({"withdraw": number})
            raise
        finally:
            del self._answers[number]

    # The line itself

    def _send(self, message: Message) -> None:
        self._unsent.append(link_messages.encode(message))
        self._write()

    def _write(self) -> None:
        try:
            while self._unsent:
                self._sock.send(self._unsent[0])
                self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._sock, self._write)
            self._is_full = True
            return
        except OSError:
            self._end()
        if self._is_full:
            self._loop.remove_writer(self._sock)
            self._is_full = False

    def _read(self) -> None:
        self._hear()

    def _hear(self) -> bool:
        """Takes the next message; whether there was one."""
        try:
            message, descriptors = link_messages.receive(self._sock)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            message, descriptors = None, []
        if message is None:
            self._end()
            return False
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        if "ruling" in message:
            answer = self._answers.get(message.get("number", 0))
            if answer and not answer.done():
                answer.set_result(message["ruling"])
        elif "reached" in message:
            answer = self._answers.get(message.get("number", 0))
            if answer and not answer.done():
                answer.set_result(sockets)
            else:
                for sock in sockets:
                    sock.close()
        elif "start" in message:
            self._begin(message["start"])
        elif "face" in message:
            self._add(message["face"], *sockets)
        elif "withdraw_face" in message and self._gate:
            self._gate.withdraw_published(int(message["withdraw_face"].removeprefix(link_messages.PUBLISHED)))
        elif "catch_up" in message and self._gate:
            task = self._loop.create_task(self._catch_up(self._gate, message["catch_up"], message["number"]))
            self._catching_up.add(task)
            task.add_done_callback(self._catching_up.discard)
        elif "forget" in message:
            self._standing.forget()
        return True

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    # What the session wants

    async def _catch_up(self, gate: Gate, tag: str, number: int) -> None:
        await gate.catch_up(tag)
        self._send({"caught_up": number})

    def _begin(self, start: Message) -> None:
        local = load_hosts()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limits = GateLimits(**start.get("limits", {})).within(descriptors)
        upstream = Upstream(**start["upstream"]) if start.get("upstream") else None
        self._gate = Gate(
            self.decide, self.ask, self.record, system_look_up(local),
            limits=self._limits, upstream=upstream, local=local, known=self.known,
            wildcard_budget=WildcardBudget(path=start.get("names") or ":memory:"),
        )  # fmt: skip

    def _add(self, face: str, sock: socket.socket) -> None:
        if self._gate is None:
            sock.close()
        elif face == link_messages.RESOLVER:
            self._gate.serve_resolver(sock)
        elif face.startswith(link_messages.PUBLISHED):
            self._gate.serve_published(sock, int(face.removeprefix(link_messages.PUBLISHED)), self.reach)
        else:
            self._standing.forget()
            self._pens.append(WardenLink(self._gate, sock, face, self._limits))
