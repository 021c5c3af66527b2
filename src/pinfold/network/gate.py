"""The gate: accepts connections on its faces, has each decided, dials, and lets bytes pass.

Faces: a proxy (`proxy_face`), and connections that wardens carry here for programs that know no proxy. Those
are opened first (`open`), so that the program's own `connect` can fail as it should, and then joined
(`join`). In the other direction, a port of this machine's loopback can lead into a session (`port_forward`).

INVARIANT: every connection that got as far as naming a host is recorded once, however it ends.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

from pinfold.kernel.netlink import is_own_address
from pinfold.model.fair_share import fair_share
from pinfold.model.gate_protocol import GATE, PROXY_PORT
from pinfold.network.connection import GateConnection, set_option
from pinfold.network.dial import Dialer
from pinfold.network.dns_lookup import LookUp
from pinfold.network.fake_ips import FakeAddresses
from pinfold.network.host_decision import Decide, Known, OpenHost, Record
from pinfold.network.http_heads import refusal_page
from pinfold.network.limits import LOOK, Buffers, GateLimits, end_heaviest
from pinfold.network.open_connection import ConnectionOpener
from pinfold.network.passthrough import Passthrough
from pinfold.network.port_forward import Reach, forward_inside
from pinfold.network.proxy_face import IdleClient, ProxyFace
from pinfold.network.refusal import Malformed, Refusal, RefusalKind
from pinfold.network.relay import SocketPump
from pinfold.network.resolver import Resolver
from pinfold.network.session_rules import SessionRules
from pinfold.network.tunnel import pass_bytes
from pinfold.network.upstream import Upstream
from pinfold.network.wildcard_budget import WildcardBudget

_ACCEPTED_AT_ONCE = 64
_REST = 0.1
"""Seconds without accepting after the process ran out of descriptors."""
_GLANCE = 0.01
CLOSED = "the session has ended"

Handler = Callable[[GateConnection], Awaitable[bool | None]]
"""Serves a connection; returns True if it goes on without the handler."""


class Gate:
    def __init__(
        self,
        decide: Decide,
        open: OpenHost,
        record: Record,
        look_up: LookUp,
        *,
        limits: GateLimits = GateLimits(),  # noqa: B008  (it is a value)
        upstream: Upstream | None = None,
        local: Mapping[str, tuple[str, ...]] | None = None,
        is_own: Callable[[str], bool] = is_own_address,
        known: Known = lambda *_: None,
        wildcard_budget: WildcardBudget | None = None,
    ) -> None:
        self._record, self._limits = record, limits
        rules = SessionRules(decide, open, limits)
        self._dialer = dialer = Dialer(rules.decide, look_up, is_own, limits, upstream, wildcard_budget)
        self.fake_addresses = FakeAddresses()
        self.resolver = Resolver(rules.decide, record, self.fake_addresses, local or {})
        self._opener = ConnectionOpener(rules, dialer, self.fake_addresses, local or {}, known)
        self._proxy = ProxyFace(self._opener, self._report, self._tunnel, limits)
        self._busy: set[asyncio.Task[None]] = set()
        self._idle_clients: set[IdleClient] = set()
        self._passthroughs: set[Passthrough] = set()
        self._listeners: set[socket.socket] = set()
        self._published: dict[int, list[socket.socket]] = {}
        self._held = 0
        """How many connections are open, or being opened, and not joined yet."""
        self._by_command: dict[str, set[GateConnection]] = {}
        """The connections of each command, by its tag; those of programs outside have none, and count as
        one command's: every user of the machine may connect to a published port."""
        self.buffers = Buffers()
        self._buffer_timer: asyncio.TimerHandle | None = None

    # Faces

    def serve_resolver(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._listeners.add(sock)
        self.resolver.serve(sock)

    def serve_published(self, listener: socket.socket, port: int, reach: Reach) -> None:
        """Accepts connections of this machine for a server inside the session."""
        self._published.setdefault(port, []).append(listener)
        self._serve(listener, partial(forward_inside, port=port, reach=reach, limits=self._limits))

    def withdraw_published(self, port: int) -> None:
        """Accepts no more connections for this port; open ones stay."""
        for listener in self._published.pop(port, ()):
            self._listeners.discard(listener)
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()

    async def open(self, host: str, port: int, tag: str) -> GateConnection:
        """Opens a connection for a warden; the result has a server or a refusal.

        `host` is the address that the program connects to, possibly a placeholder for a name.
        """
        connection = self._new("carried", tag=tag)
        if refusal := self._no_room_for(tag):
            connection.host, connection.port, connection.refusal = host, port, refusal
        else:
            self._count(connection)
            self._held += 1
            try:
                await self._opener.open(connection, host, port)
            except BaseException:
                connection.is_left = True
                self.drop(connection)
                raise
            self._held -= 1 if connection.refusal else 0
        if connection.refusal:
            self._finish(connection)
        return connection

    def open_at_once(self, host: str, port: int, tag: str) -> GateConnection | None:
        """Opens a connection for a warden if that needs no waiting; else None."""
        if self._no_room_for(tag):
            return None
        connection = self._new("carried", tag=tag)
        if not self._opener.open_at_once(connection, host, port):
            return None
        self._count(connection)
        self._held += 1
        return connection

    async def catch_up(self, tag: str) -> None:
        """Returns when all refusals of a command that has ended are recorded.

        If its programs ended while they waited for an answer, that is a refusal too, and the gate notices it
        in a moment. Programs that it left running may wait on.
        """
        late = time.monotonic() + self._limits.leaving
        while self._opener.is_asking(tag) and time.monotonic() < late:
            await asyncio.sleep(_GLANCE)

    def take(self, client: socket.socket, tag: str) -> None:
        """Takes a connection to the proxy, with the tag of its command."""
        self._admit(self._new("http", client, tag), self._await_first_bytes)

    def join(self, connection: GateConnection, client: socket.socket) -> None:
        """Takes the program's side of an opened connection."""
        self._held -= 1
        connection.client, connection.is_joined = client, True
        client.setblocking(False)
        set_option(client, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if connection.early or connection.via:
            self._start(connection, self._joined)
        else:
            self._pass(connection, b"")

    def drop(self, connection: GateConnection) -> None:
        """Ends an opened connection that the program never joined."""
        self._held -= 1
        connection.ended = "the program stopped waiting for the connection"
        self._finish(connection)

    async def close(self) -> None:
        """Ends everything at once; every connection is reset."""
        loop = asyncio.get_running_loop()
        if self._buffer_timer:
            self._buffer_timer.cancel()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for task in list(self._busy):
            task.cancel()
        for greeting in list(self._idle_clients):
            greeting.stop()
            greeting.connection.reset()
            greeting.connection.close()
        for passage in list(self._passthroughs):
            passage.break_off(CLOSED)
        await asyncio.gather(*self._busy, return_exceptions=True)
        await asyncio.sleep(0)  # callbacks of all this run now

    # The course of every connection

    def _new(self, face: str, client: socket.socket | None = None, tag: str = "") -> GateConnection:
        connection = GateConnection(face, client, tag)
        connection.report = self._report
        return connection

    def _serve(self, listener: socket.socket, handler: Handler) -> None:
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
                self._admit(
                    self._new("published", client), lambda connection: self._start(connection, handler)
                )

        def resume() -> None:
            if listener in self._listeners:
                loop.add_reader(listener, accept)

        resume()

    def _admit(self, connection: GateConnection, begin: Callable[[GateConnection], None]) -> None:
        connection.client.setblocking(False)
        set_option(connection.client, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        set_option(connection.client, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        refusal = self._no_room_for(connection.tag)
        if refusal is None:
            self._count(connection)
            begin(connection)
        elif connection.face == "published":
            connection.reset()
            connection.close()
        else:
            self._reject(connection, refusal)

    def _reject(self, connection: GateConnection, refusal: Refusal) -> None:
        """Refuses a proxy client that has named no host yet."""
        connection.host, connection.port = GATE, PROXY_PORT
        connection.refuse(refusal)
        with suppress(OSError):  # the client is gone already
            connection.client.send(refusal_page(refusal.why, refusal.told))
        self._finish(connection)

    def _no_room_for(self, tag: str) -> Refusal | None:
        """Why a command gets no further connection; None if it does."""
        limits = self._limits
        there = len(self._idle_clients) + len(self._busy) + len(self._passthroughs) + self._held
        if there >= limits.connections:
            said = f"the session already has {limits.connections} connections, its limit"
        else:
            own = len(self._by_command.get(tag, ()))
            if not own or own < fair_share(limits.connections, there - own):
                return None
            said = f"the command already has {own} connections, its share of the session's limit"
        return Refusal(RefusalKind.BUSY, said, remedy="close some connections first")

    def _count(self, connection: GateConnection) -> None:
        self._by_command.setdefault(connection.tag, set()).add(connection)
        if connection.tag:
            self._buffer_timer = self._buffer_timer or asyncio.get_running_loop().call_later(
                LOOK, self._look_at_buffers
            )

    def _look_at_buffers(self) -> None:
        self._buffer_timer = None
        commands = {tag: each for tag, each in self._by_command.items() if tag}
        end_heaviest(commands, self.buffers)
        if commands:
            self._buffer_timer = asyncio.get_running_loop().call_later(LOOK, self._look_at_buffers)

    def _await_first_bytes(self, connection: GateConnection) -> None:
        self._idle_clients.add(IdleClient(connection, self._limits.greeting, self._first_bytes_came))

    def _first_bytes_came(self, greeting: IdleClient, data: bytes) -> None:
        self._idle_clients.discard(greeting)
        connection, wanted = greeting.connection, None
        try:
            wanted = self._proxy.begin(connection, data) if data else None
        except OSError as error:
            connection.ended = f"the connection broke: {error}"
        finally:
            if wanted is None:
                self._finish(connection)
        if isinstance(wanted, bytes):
            self._pass(connection, wanted)
        elif wanted:
            self._start(connection, wanted)

    def _start(self, connection: GateConnection, handler: Handler) -> None:
        task = asyncio.get_running_loop().create_task(self._run(connection, handler))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _run(self, connection: GateConnection, handler: Handler) -> None:
        goes_on = None
        try:
            goes_on = await handler(connection)
        except (OSError, Malformed) as error:
            connection.ended = f"the connection broke: {error}"
        except asyncio.CancelledError:
            connection.ended = CLOSED
            connection.reset()
        finally:
            if not goes_on:
                self._finish(connection)

    def _pass(self, connection: GateConnection, first: bytes) -> None:
        """Lets bytes pass from now on; `first` is what the client already sent."""
        passage = Passthrough(connection, self._limits, self._passthrough_ended, self._hand_over)
        self._passthroughs.add(passage)
        passage.start(first)

    def _passthrough_ended(self, passage: Passthrough) -> None:
        self._passthroughs.discard(passage)
        self._finish(passage.connection)

    def _hand_over(self, passage: Passthrough, first: bytes, down: SocketPump) -> None:
        self._passthroughs.discard(passage)
        self._start(passage.connection, lambda connection: pass_bytes(connection, first, self._limits, down))

    def _finish(self, connection: GateConnection) -> None:
        if connection.refusal and connection.refusal.why is RefusalKind.REPEATED:
            self._dialer.has_echoed_credentials = True
        if connections := self._by_command.get(connection.tag):
            connections.discard(connection)
            if not connections:
                del self._by_command[connection.tag]
        connection.close()
        self._report(connection)

    def _report(self, connection: GateConnection) -> None:
        if connection.host and not connection.is_reported:
            connection.is_reported = True
            self._record(connection.outcome)

    async def _tunnel(self, connection: GateConnection, first: bytes) -> bool:
        if connection.early or connection.via:
            await pass_bytes(connection, first, self._limits)
            return False
        self._pass(connection, first)
        return True

    async def _joined(self, connection: GateConnection) -> None:
        await pass_bytes(connection, b"", self._limits)
