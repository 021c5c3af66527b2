"""The gate's end of the line to its session: the rules, the person and the journal are at the other end.

INVARIANT: without that line there is no gate. When it ends, so does every connection, and the process.
"""

import asyncio
import resource
import socket
from collections import deque
from functools import partial
from typing import Any

from pinfold.model.decision import Verdict
from pinfold.network import link_messages
from pinfold.network.connection import pen_of
from pinfold.network.dns_lookup import load_hosts, system_look_up
from pinfold.network.gate import Gate
from pinfold.network.host_decision import ConnectionOutcome, DecisionCache, HostDecision, Marks
from pinfold.network.limits import GateLimits
from pinfold.network.link_messages import Message
from pinfold.network.upstream import Upstream
from pinfold.network.warden_link import WardenLink
from pinfold.network.wildcard_budget import WildcardBudget


class GateLink:
    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._unsent: deque[bytes] = deque()
        self._is_full = False
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._later: dict[int, asyncio.Future[HostDecision]] = {}
        """The answers of persons, by the numbers of what was opened."""
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
        for answer in (*self._answers.values(), *self._later.values()):
            answer.cancel()
        for pen in self._pens:
            pen.close()
        if self._gate:
            await self._gate.close()

    # What the gate needs

    async def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        """What the rules say, without asking a person."""
        if known := self.known(host, port, tag):
            return known
        when, number, answer = self._standing.now(), *self._open(host, port, tag, may_ask=False)
        return self._kept(host, port, tag, await self._answer_to(number, answer), when)

    async def open(
        self, host: str, port: int, tag: str
    ) -> "tuple[HostDecision, asyncio.Future[HostDecision] | None]":
        """What the rules say, and if they say ASK, the answer of a person to come."""
        if known := self.known(host, port, tag):
            return known, None
        when, number, first = self._standing.now(), *self._open(host, port, tag, may_ask=True)
        last: asyncio.Future[HostDecision] = self._loop.create_future()
        self._later[number] = last
        last.add_done_callback(partial(self._settled, number))
        try:
            ruling = self._kept(host, port, tag, await self._answer_to(number, first), when)
        except BaseException:
            last.cancel()
            raise
        if ruling.verdict is Verdict.ASK:
            return ruling, last
        last.set_result(ruling)
        return ruling, None

    def _open(
        self, host: str, port: int | None, tag: str, *, may_ask: bool
    ) -> "tuple[int, asyncio.Future[Any]]":
        return self._request({"open": {"host": host, "port": port, "tag": tag, "may_ask": may_ask}})

    def _kept(
        self, host: str, port: int | None, tag: str, said: Any, when: "tuple[int, Marks]"
    ) -> HostDecision:
        ruling = link_messages.ruling_from(said)
        self._standing.keep((pen_of(tag), host, port), ruling, when)
        return ruling

    def _settled(self, number: int, answer: "asyncio.Future[HostDecision]") -> None:
        del self._later[number]
        if answer.cancelled():
            self._send({"withdraw": number})

    def known(self, host: str, port: int | None, tag: str) -> HostDecision | None:
        """A decision that still holds. What the session has said by now is heard first: it may matter."""
        while self._hear():
            pass
        return self._standing.find((pen_of(tag), host, port)) if tag else None

    async def reach(self, port: int) -> socket.socket:
        """A socket of the session's own network. Raises OSError if there is none to be had."""
        sockets: list[socket.socket] = await self._ask({"reach": port})
        if not sockets:
            raise ConnectionRefusedError(f"port {port} of the session cannot be reached")
        return sockets[0]

    def record(self, outcome: ConnectionOutcome) -> None:
        self._send({"record": link_messages.outcome_to(outcome)})

    async def _ask(self, message: Message) -> Any:
        return await self._answer_to(*self._request(message))

    def _request(self, message: Message) -> "tuple[int, asyncio.Future[Any]]":
        self._number += 1
        answer = self._answers[self._number] = self._loop.create_future()
        self._send({**message, "number": self._number})
        return self._number, answer

    async def _answer_to(self, number: int, answer: "asyncio.Future[Any]") -> Any:
        try:
            return await answer
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
            number = message.get("number", 0)
            answer, later = self._answers.get(number), self._later.get(number)
            if answer and not answer.done():
                answer.set_result(message["ruling"])
            elif later and not later.done():
                later.set_result(link_messages.ruling_from(message["ruling"]))
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
            self.decide, self.open, self.record, system_look_up(local),
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
