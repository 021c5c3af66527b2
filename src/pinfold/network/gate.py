"""The gate: takes what comes on its faces, has it decided, dials, and lets bytes pass.

Faces: a proxy that speaks HTTP and SOCKS on one socket (the first byte tells them apart), and connections
that are carried here, of programs that know no proxy: those are opened first (`open`), so that the program's
own `connect` can fail as it should, and then joined (`join`). The other way round, a port of this machine's
loopback can lead to one inside (`published`).

INVARIANT: every connection that got as far as naming a host is recorded once, however it ends.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

from pinfold.kernel.netlink import is_own_address
from pinfold.model.decision import Verdict
from pinfold.model.hosts import canonical
from pinfold.network import socks
from pinfold.network.dial import Dialer
from pinfold.network.forward import Exchange
from pinfold.network.http_layer import ESTABLISHED, Close, HttpLayer, Open, ToClient
from pinfold.network.limits import Limits
from pinfold.network.lookup import LookUp
from pinfold.network.passage import Passage
from pinfold.network.published import Reach, lead_in
from pinfold.network.questions import Questions
from pinfold.network.readable import wait_gone
from pinfold.network.refusal import Malformed, Refusal, Why
from pinfold.network.relay import Pump
from pinfold.network.resolver import Resolver
from pinfold.network.ruling import Ask, Decide, Known, Record, Ruling
from pinfold.network.stand_ins import StandIns, is_stand_in
from pinfold.network.tunnel import pass_bytes
from pinfold.network.upstream import Upstream
from pinfold.network.way import Way, readable_tag, set_option

_PIECE = 65536
_ACCEPTED_AT_ONCE = 64
_REST = 0.1
"""Seconds without accepting when there are no descriptors left."""
_FAREWELL = 2.0
_LONGEST_FAREWELL = 1 << 20
CLOSED = "the gate was closed"

Handler = Callable[[Way], Awaitable[bool | None]]
"""Does what there is to do about a way; True if it goes on by itself, and is not over."""


class Gate:
    def __init__(
        self,
        decide: Decide,
        ask: Ask,
        record: Record,
        look_up: LookUp,
        *,
        limits: Limits = Limits(),  # noqa: B008  (it is a value)
        upstream: Upstream | None = None,
        local: Mapping[str, tuple[str, ...]] | None = None,
        is_own: Callable[[str], bool] = is_own_address,
        known: Known = lambda *_: None,
    ) -> None:
        self._record, self._limits, self._known = record, limits, known
        self._questions = Questions(decide, ask, limits)
        self._dialer = Dialer(self._questions.decide, look_up, is_own, limits, upstream)
        self.stand_ins = StandIns()
        self.resolver = Resolver(self._questions.decide, record, self.stand_ins, local or {})
        self._busy: set[asyncio.Task[None]] = set()
        self._passing: set[Passage] = set()
        self._listeners: set[socket.socket] = set()
        self._published: dict[int, list[socket.socket]] = {}
        self._held = 0
        """Ways that are opened, or being opened, and not joined."""

    # Faces

    def serve_proxy(self, listener: socket.socket) -> None:
        self._serve(listener, "http", self._proxy)

    def serve_carried(self, listener: socket.socket) -> None:
        """Connections whose own address says what they were meant for."""
        self._serve(listener, "carried", self._accepted)

    def serve_resolver(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._listeners.add(sock)
        self.resolver.serve(sock)

    def serve_published(self, listener: socket.socket, port: int, reach: Reach) -> None:
        """Connections of this machine that are meant for a server inside."""
        self._published.setdefault(port, []).append(listener)
        self._serve(listener, "published", lambda way: lead_in(way, port, reach, self._limits))

    def withdraw_published(self, port: int) -> None:
        """Nobody is led in there any more; who is in already stays."""
        for listener in self._published.pop(port, ()):
            self._listeners.discard(listener)
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()

    async def open(self, host: str, port: int, tag: str) -> Way:
        """The way for a connection that is to be carried; it leads somewhere, or has a refusal.

        `host` is what the program connects to: an address, which may stand for a name.
        """
        way = Way("carried")
        if self._is_full:
            way.host, way.port, way.tag = host, port, readable_tag(tag)
            way.refusal = Refusal(Why.BUSY, f"the gate has {self._limits.connections} connections already")
        else:
            self._held += 1
            try:
                await self._find(way, host, port, tag)
            except BaseException:
                self.drop(way)
                raise
            self._held -= 1 if way.refusal else 0
        if way.refusal:
            self._finish(way)
        return way

    def open_at_once(self, host: str, port: int, tag: str) -> Way | None:
        """The same, if it is known to lead somewhere and nothing has to be waited for; else None."""
        if self._is_full:
            return None
        try:
            name = self._meant(canonical(host))
        except ValueError:
            return None
        way = Way("carried")
        way.host, way.port, way.tag = name, port, readable_tag(tag)
        if not self._has_found(way):
            return None
        self._held += 1
        return way

    def take(self, client: socket.socket, tag: str) -> None:
        """A connection to the proxy, and whose it is."""
        way = Way("http", client)
        way.tag = tag
        self._admit(way, self._proxy)

    def join(self, way: Way, client: socket.socket) -> None:
        """The program's side of an opened way."""
        self._held -= 1
        way.client = client
        client.setblocking(False)
        set_option(client, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if way.early:
            self._start(way, self._joined)
        else:
            self._pass(way, b"")

    def drop(self, way: Way) -> None:
        """The program never came."""
        self._held -= 1
        way.ended = "the program did not wait for it"
        self._finish(way)

    async def close(self) -> None:
        """Ends everything at once; every connection breaks off."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for task in list(self._busy):
            task.cancel()
        for passage in list(self._passing):
            passage.break_off(CLOSED)
        await asyncio.gather(*self._busy, return_exceptions=True)
        await asyncio.sleep(0)  # whatever of this has called back has its turn

    # What every connection goes through

    def _serve(self, listener: socket.socket, face: str, handler: Handler) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._listeners.add(listener)

        def accept() -> None:
            for _ in range(_ACCEPTED_AT_ONCE):
                try:
                    client, _ = listener.accept()
                except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                    return
                except OSError:  # no descriptors, or no memory
                    loop.remove_reader(listener)
                    loop.call_later(_REST, resume)
                    return
                self._admit(Way(face, client), handler)

        def resume() -> None:
            if listener in self._listeners:
                loop.add_reader(listener, accept)

        resume()

    def _admit(self, way: Way, handler: Handler) -> None:
        way.client.setblocking(False)
        set_option(way.client, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        set_option(way.client, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._is_full:
            way.reset()
            way.close()
        else:
            self._start(way, handler)

    @property
    def _is_full(self) -> bool:
        return len(self._busy) + len(self._passing) + self._held >= self._limits.connections

    def _start(self, way: Way, handler: Handler) -> None:
        task = asyncio.get_running_loop().create_task(self._run(way, handler))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _run(self, way: Way, handler: Handler) -> None:
        goes_on = None
        try:
            goes_on = await handler(way)
        except (OSError, Malformed) as error:
            way.ended = f"it broke off: {error}"
        except asyncio.CancelledError:
            way.ended = CLOSED
            way.reset()
        finally:
            if not goes_on:
                self._finish(way)

    def _pass(self, way: Way, first: bytes) -> None:
        """Lets bytes pass from now on; `first` is what the client sent already."""
        passage = Passage(way, self._limits, self._passed, self._hand_over)
        self._passing.add(passage)
        passage.start(first)

    def _passed(self, passage: Passage) -> None:
        self._passing.discard(passage)
        self._finish(passage.way)

    def _hand_over(self, passage: Passage, first: bytes, down: Pump) -> None:
        self._passing.discard(passage)
        self._start(passage.way, lambda way: pass_bytes(way, first, self._limits, down))

    def _finish(self, way: Way) -> None:
        way.close()
        self._tell(way)

    def _tell(self, way: Way) -> None:
        if way.host and not way.is_told:
            way.is_told = True
            self._record(way.outcome)

    async def _find(self, way: Way, host: str, port: int, tag: str) -> None:
        """Decides about a host and dials it; the way then has a server, or a refusal."""
        way.host, way.port, way.tag = host[:255], port, way.tag or readable_tag(tag)
        try:
            way.host = self._meant(canonical(host))
        except ValueError as error:
            way.refusal = Refusal(Why.MALFORMED, f"{error}; write the host's plain name")
            return
        if not 0 < port < 65536:
            way.refusal = Refusal(Why.MALFORMED, f"{port} is no port")
            return
        if self._has_found(way):
            return
        way.ruling = await self._settle(way)
        if way.ruling.verdict is not Verdict.ALLOW:
            message = way.ruling.message or f"{way.host}:{port} may not be reached"
            way.refusal = Refusal(Why.DENIED, message, way.ruling.rule)
            return
        dialled = await self._dialer.dial(way.host, port, way.ruling, way.tag)
        if isinstance(dialled, Refusal):
            way.refusal = dialled
            return
        way.server, way.address, way.early, _ = dialled

    def _has_found(self, way: Way) -> bool:
        """Dials what is known to be allowed and answers at once; whether it was that."""
        ruling = self._known(way.host, way.port, way.tag)
        dialled = self._dialer.dial_at_once(way.host, way.port, ruling) if ruling else None
        if ruling is None or dialled is None:
            return False
        way.ruling = ruling
        way.server, way.address, way.early, _ = dialled
        return True

    def _meant(self, host: str) -> str:
        if not is_stand_in(host):
            return host
        name = self.stand_ins.name_of(host, asyncio.get_running_loop().time())
        if name is None:
            raise ValueError(f"{host} stands for no name that was asked for")
        return name

    async def _settle(self, way: Way) -> Ruling:
        ruling = await self._questions.decide(way.host, way.port, way.tag)
        if ruling.verdict is not Verdict.ASK:
            return ruling
        answer = asyncio.create_task(self._questions.settle(way.host, way.port, way.tag))
        waits: set[asyncio.Task[Ruling] | asyncio.Task[None]] = {answer}
        if way.has_client:
            waits.add(asyncio.create_task(wait_gone(way.client)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            return Ruling(Verdict.DENY, f"the program did not wait for an answer about {way.host}:{way.port}")
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # The faces' own ways to say yes and no

    async def _proxy(self, way: Way) -> bool:
        async with asyncio.timeout(self._limits.greeting):
            data = await self._receive(way)
        if not data:
            return False
        if data[0] in (socks.VERSION_4, socks.VERSION_5):
            return await self._socks(way, data)
        return await self._http(way, data)

    async def _receive(self, way: Way) -> bytes:
        return await asyncio.get_running_loop().sock_recv(way.client, _PIECE)

    async def _send(self, way: Way, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(way.client, data)

    async def _http(self, way: Way, data: bytes) -> bool:
        layer = HttpLayer()
        wanted: Open | None = None
        async with asyncio.timeout(self._limits.greeting):
            while wanted is None:
                for command in layer.from_client(data):
                    if isinstance(command, Open):
                        wanted = command
                    elif isinstance(command, ToClient):
                        await self._say_last(way, command.data)
                    elif isinstance(command, Close):
                        return False
                data = await self._receive(way) if wanted is None else b""
        way.face = "connect" if wanted.is_tunnel else "http"
        await self._find(way, wanted.target.host, wanted.target.port, wanted.tag)
        if way.refusal is not None:
            self._tell(way)  # before the program hears of it: it may be the last thing that it does
            for command in layer.refuse(way.refusal.why, way.refusal.message):
                if isinstance(command, ToClient):
                    await self._say_last(way, command.data)
        elif wanted.is_tunnel:
            await self._send(way, ESTABLISHED)
            return await self._tunnel(way, wanted.rest)
        else:
            await Exchange(way, layer).run(layer.opened(), self._limits)
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
        await self._find(way, asked.host, asked.port, asked.tag)
        if way.refusal is not None:
            self._tell(way)
            await self._say_last(way, greeting.refused(way.refusal.why))
            return False
        await self._send(way, greeting.granted())
        return await self._tunnel(way, greeting.rest)

    async def _tunnel(self, way: Way, first: bytes) -> bool:
        if way.early:
            await pass_bytes(way, first, self._limits)
            return False
        self._pass(way, first)
        return True

    async def _accepted(self, way: Way) -> bool:
        host, port = way.client.getsockname()[:2]
        await self._find(way, host, port, "")
        if way.refusal is not None:
            way.reset()
            return False
        return await self._tunnel(way, b"")

    async def _joined(self, way: Way) -> None:
        await pass_bytes(way, b"", self._limits)

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
