"""The gate's end of the line to its session: the rules, the person and the journal are at the other end.

INVARIANT: without that line there is no gate. When it ends, so does every connection, and the process.
"""

import asyncio
import resource
import socket
from collections import deque
from functools import partial
from typing import TypeVar

from pinfold.model.decision import Verdict
from pinfold.network import link_messages
from pinfold.network.connection import pen_of
from pinfold.network.dns_lookup import load_hosts, system_look_up
from pinfold.network.gate import Gate
from pinfold.network.host_decision import ConnectionOutcome, DecisionCache, HostDecision, Marks
from pinfold.network.limits import GateLimits
from pinfold.network.link_messages import (
    AddFace,
    CatchUp,
    CaughtUp,
    ForgetDecisions,
    FromGate,
    HostDecided,
    OpenHost,
    PortReached,
    ReachPort,
    RecordConnection,
    StartGate,
    WithdrawPort,
    WithdrawQuestion,
)
from pinfold.network.warden_link import WardenLink
from pinfold.network.wildcard_budget import WildcardBudget

_Answer = TypeVar("_Answer")


class GateLink:
    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._unsent: deque[bytes] = deque()
        self._is_full = False
        self._decisions: dict[int, asyncio.Future[HostDecision]] = {}
        self._reached: dict[int, asyncio.Future[list[socket.socket]]] = {}
        """First answers that are waited for, by the numbers of their requests."""
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
        for answer in (*self._decisions.values(), *self._later.values()):
            answer.cancel()
        for reached in self._reached.values():
            reached.cancel()
        for pen in self._pens:
            pen.close()
        if self._gate:
            await self._gate.close()

    # What the gate needs

    async def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        """What the rules say, without asking a person."""
        if known := self.known(host, port, tag):
            return known
        when, number = self._standing.now(), self._next_number()
        asked = OpenHost(number, host, port, tag, False)
        return self._kept(host, port, tag, await self._request(asked, number, self._decisions), when)

    async def open(
        self, host: str, port: int, tag: str
    ) -> "tuple[HostDecision, asyncio.Future[HostDecision] | None]":
        """What the rules say, and if they say ASK, the answer of a person to come."""
        if known := self.known(host, port, tag):
            return known, None
        when, number = self._standing.now(), self._next_number()
        asked = OpenHost(number, host, port, tag, True)
        last: asyncio.Future[HostDecision] = self._loop.create_future()
        self._later[number] = last
        last.add_done_callback(partial(self._settled, number))
        try:
            first = await self._request(asked, number, self._decisions)
            ruling = self._kept(host, port, tag, first, when)
        except BaseException:
            last.cancel()
            raise
        if ruling.verdict is Verdict.ASK:
            return ruling, last
        last.set_result(ruling)
        return ruling, None

    def _kept(
        self, host: str, port: int | None, tag: str, ruling: HostDecision, when: "tuple[int, Marks]"
    ) -> HostDecision:
        self._standing.keep((pen_of(tag), host, port), ruling, when)
        return ruling

    def _settled(self, number: int, answer: "asyncio.Future[HostDecision]") -> None:
        del self._later[number]
        if answer.cancelled():
            self._send(WithdrawQuestion(number))

    def known(self, host: str, port: int | None, tag: str) -> HostDecision | None:
        """A decision that still holds. What the session has said by now is heard first: it may matter."""
        while self._hear():
            pass
        return self._standing.find((pen_of(tag), host, port)) if tag else None

    async def reach(self, port: int) -> socket.socket:
        """A socket of the session's own network. Raises OSError if there is none to be had."""
        number = self._next_number()
        sockets = await self._request(ReachPort(number, port), number, self._reached)
        if not sockets:
            raise ConnectionRefusedError(f"port {port} of the session cannot be reached")
        return sockets[0]

    def record(self, outcome: ConnectionOutcome) -> None:
        self._send(RecordConnection(link_messages.bounded_outcome(outcome)))

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    async def _request(
        self, message: FromGate, number: int, answers: "dict[int, asyncio.Future[_Answer]]"
    ) -> _Answer:
        answer: asyncio.Future[_Answer] = self._loop.create_future()
        answers[number] = answer
        self._send(message)
        try:
            return await answer
        finally:
            del answers[number]

    # The line itself

    def _send(self, message: FromGate) -> None:
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
            message, descriptors = link_messages.from_session(self._sock)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            message, descriptors = None, []
        if message is None:
            self._end()
            return False
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        match message:
            case HostDecided(number, decision):
                first, later = self._decisions.get(number), self._later.get(number)
                if first and not first.done():
                    first.set_result(decision)
                elif later and not later.done():
                    later.set_result(decision)
            case PortReached(number):
                reached = self._reached.get(number)
                if reached and not reached.done():
                    reached.set_result(sockets)
                    sockets = []
            case StartGate():
                self._begin(message)
            case AddFace(face) if sockets and self._gate:
                self._add(self._gate, face, sockets.pop(0))
            case WithdrawPort(port) if self._gate:
                self._gate.withdraw_published(port)
            case CatchUp(number, tag) if self._gate:
                task = self._loop.create_task(self._catch_up(self._gate, tag, number))
                self._catching_up.add(task)
                task.add_done_callback(self._catching_up.discard)
            case ForgetDecisions():
                self._standing.forget()
        for sock in sockets:
            sock.close()
        return True

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    # What the session wants

    async def _catch_up(self, gate: Gate, tag: str, number: int) -> None:
        await gate.catch_up(tag)
        self._send(CaughtUp(number))

    def _begin(self, start: StartGate) -> None:
        local = load_hosts()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limits = start.limits.within(descriptors)
        self._gate = Gate(
            self.decide, self.open, self.record, system_look_up(local),
            limits=self._limits, upstream=start.upstream, local=local, known=self.known,
            wildcard_budget=WildcardBudget(path=start.names or ":memory:"),
        )  # fmt: skip

    def _add(self, gate: Gate, face: str, sock: socket.socket) -> None:
        if face == link_messages.RESOLVER:
            gate.serve_resolver(sock)
        elif face.startswith(link_messages.PUBLISHED):
            gate.serve_published(sock, int(face.removeprefix(link_messages.PUBLISHED)), self.reach)
        else:
            self._standing.forget()
            self._pens.append(WardenLink(gate, sock, face, self._limits))
