"""Opens a connection that a program asks for: finds the host it means, decides, asks a person, and dials.

INVARIANT: the gate dials nothing that was not allowed. It does not ask about what could not be dialled in any
case, as far as it can know that without sending a packet.
"""

import asyncio
from collections.abc import Mapping

from pinfold.model.decision import Verdict
from pinfold.model.hosts import canonical
from pinfold.network.connection import GateConnection
from pinfold.network.dial import Dialer
from pinfold.network.fake_ips import FakeAddresses, is_fake_address
from pinfold.network.host_decision import HostDecision, Known
from pinfold.network.refusal import Refusal, RefusalKind
from pinfold.network.resolver import local_addresses
from pinfold.network.session_rules import SessionRules
from pinfold.network.socket_wait import wait_hang_up


class ConnectionOpener:
    def __init__(
        self,
        rules: SessionRules,
        dialer: Dialer,
        fake_addresses: FakeAddresses,
        local: Mapping[str, tuple[str, ...]],
        known: Known,
    ) -> None:
        self._rules, self._dialer, self._known = rules, dialer, known
        self._fake_addresses, self._local = fake_addresses, local
        self._asking: list[str] = []
        """The tags of connections that wait for a person's answer."""

    async def open(self, connection: GateConnection, host: str, port: int, *, is_plain: bool = False) -> None:
        """Decides about a host and dials it; the connection then has a server or a refusal.

        `is_plain` if it is for HTTP requests, which a proxy can be given as they are.
        """
        connection.host, connection.port = host[:255], port
        try:
            connection.host = self._meant(canonical(host))
        except ValueError as error:
            connection.refusal = Refusal(RefusalKind.MALFORMED, f"{error}", remedy="write a plain host name")
            return
        if not 0 < port < 65536:
            connection.refusal = Refusal(RefusalKind.MALFORMED, f"{port} is not a port from 1 to 65535")
            return
        if self._open_known(connection):
            return
        settled = await self._settle(connection)
        if isinstance(settled, Refusal):
            connection.refusal = settled
            return
        connection.ruling = settled
        if connection.ruling.verdict is not Verdict.ALLOW:
            message = connection.ruling.message or f"{connection.host}:{port} is not allowed"
            said = connection.ruling
            connection.refusal = Refusal(
                RefusalKind.DENIED, message, said.rule, said.answered, said.remedy, said.asked_at
            )
            return
        dialled = await self._dialer.dial(
            connection.host, port, connection.ruling, connection.tag, is_plain=is_plain
        )
        if isinstance(dialled, Refusal):
            connection.refusal = dialled
            return
        connection.set_server(dialled.sock, dialled.address, dialled.early, dialled.via)

    def open_at_once(self, connection: GateConnection, host: str, port: int) -> bool:
        """Opens a connection that needs no waiting; whether it could."""
        try:
            name = self._meant(canonical(host))
        except ValueError:
            return False
        connection.host, connection.port = name, port
        return self._open_known(connection)

    def _open_known(self, connection: GateConnection) -> bool:
        """Dials a host that is known to be allowed and to answer at once; whether it could."""
        ruling = self._known(connection.host, connection.port, connection.tag)
        dialled = self._dialer.dial_at_once(connection.host, connection.port, ruling) if ruling else None
        if ruling is None or dialled is None:
            return False
        connection.ruling = ruling
        connection.set_server(dialled.sock, dialled.address)
        return True

    def _meant(self, host: str) -> str:
        if not is_fake_address(host):
            return host
        name = self._fake_addresses.use(host, asyncio.get_running_loop().time())
        if name is None:
            raise ValueError(f"no name was resolved to the placeholder address {host}")
        return name

    def is_asking(self, tag: str) -> bool:
        """Whether this command waits for an answer and the end of that was not recorded yet."""
        return tag in self._asking

    async def _settle(self, connection: GateConnection) -> HostDecision | Refusal:
        host, port, tag = connection.host, connection.port, connection.tag
        if addresses := local_addresses(host, self._local):
            ruling = await self._rules.decide(host, port, tag)
            if ruling.verdict is not Verdict.ASK:
                return ruling
            fine = await self._dialer.allowed_addresses(host, addresses, port, ruling, tag)
            if isinstance(fine, Refusal):
                return fine
        ruling, answer = await self._rules.open(host, port, tag)
        return ruling if answer is None else await self._answer(connection, answer)

    async def _answer(
        self, connection: GateConnection, answer: "asyncio.Future[HostDecision]"
    ) -> HostDecision:
        host, port = connection.host, connection.port
        waits: set[asyncio.Future[HostDecision] | asyncio.Task[None]] = {answer}
        if connection.has_client:
            waits.add(asyncio.create_task(wait_hang_up(connection.client)))
        self._asking.append(connection.tag)
        try:
            done, _ = await asyncio.wait(
                waits, timeout=self._rules.patience, return_when=asyncio.FIRST_COMPLETED
            )
            if answer in done or not done:
                return self._rules.answer(host, port, answer)
            return HostDecision(
                Verdict.DENY, f"the program stopped waiting for an answer about {host}:{port}"
            )
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            self._asking.remove(connection.tag)  # last: the result is recorded before another task runs
