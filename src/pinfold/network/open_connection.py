"""Where a way leads: what a program asks for becomes a host, is decided about, perhaps by a person, and
dialled.

INVARIANT: nothing is dialled that was not allowed. What could not be dialled in any case is not asked about,
as far as that is known without a packet.
"""

import asyncio
from collections.abc import Mapping

from pinfold.model.decision import Verdict
from pinfold.model.hosts import canonical
from pinfold.network.connection import GateConnection
from pinfold.network.dial import Dialer
from pinfold.network.fake_ips import FakeAddresses, is_fake_address
from pinfold.network.host_decision import HostDecision, Known
from pinfold.network.host_questions import Questions
from pinfold.network.refusal import Refusal, RefusalKind
from pinfold.network.resolver import local_addresses
from pinfold.network.socket_wait import wait_gone


class ConnectionOpener:
    def __init__(
        self,
        questions: Questions,
        dialer: Dialer,
        stand_ins: FakeAddresses,
        local: Mapping[str, tuple[str, ...]],
        known: Known,
    ) -> None:
        self._questions, self._dialer, self._known = questions, dialer, known
        self._stand_ins, self._local = stand_ins, local
        self._asking: list[str] = []
        """Whose ways wait for a person's answer, by their tags."""

    async def find(self, way: GateConnection, host: str, port: int, *, is_plain: bool = False) -> None:
        """Decides about a host and dials it; the way then has a server, or a refusal.

        `is_plain` if it is for HTTP requests, which a proxy can be given as they are.
        """
        way.host, way.port = host[:255], port
        try:
            way.host = self._meant(canonical(host))
        except ValueError as error:
            way.refusal = Refusal(RefusalKind.MALFORMED, f"{error}", remedy="write a plain host name")
            return
        if not 0 < port < 65536:
            way.refusal = Refusal(RefusalKind.MALFORMED, f"{port} is no port")
            return
        if self.has_found(way):
            return
        settled = await self._settle(way)
        if isinstance(settled, Refusal):
            way.refusal = settled
            return
        way.ruling = settled
        if way.ruling.verdict is not Verdict.ALLOW:
            message = way.ruling.message or f"{way.host}:{port} may not be reached"
            said = way.ruling
            way.refusal = Refusal(
                RefusalKind.DENIED, message, said.rule, said.answered, said.remedy, said.asked_at
            )
            return
        dialled = await self._dialer.dial(way.host, port, way.ruling, way.tag, is_plain=is_plain)
        if isinstance(dialled, Refusal):
            way.refusal = dialled
            return
        way.lead_to(dialled.sock, dialled.address, dialled.early, dialled.via)

    def find_at_once(self, way: GateConnection, host: str, port: int) -> bool:
        """The same, if nothing has to be waited for; whether it was that."""
        try:
            name = self._meant(canonical(host))
        except ValueError:
            return False
        way.host, way.port = name, port
        return self.has_found(way)

    def has_found(self, way: GateConnection) -> bool:
        """Dials what is known to be allowed and answers at once; whether it was that."""
        ruling = self._known(way.host, way.port, way.tag)
        dialled = self._dialer.dial_at_once(way.host, way.port, ruling) if ruling else None
        if ruling is None or dialled is None:
            return False
        way.ruling = ruling
        way.lead_to(dialled.sock, dialled.address)
        return True

    def _meant(self, host: str) -> str:
        if not is_fake_address(host):
            return host
        name = self._stand_ins.use(host, asyncio.get_running_loop().time())
        if name is None:
            raise ValueError(f"{host} stands for no name that was asked for")
        return name

    def is_asking(self, tag: str) -> bool:
        """Whether an answer is waited for, for this command, and no end of that was told."""
        return tag in self._asking

    async def _settle(self, way: GateConnection) -> HostDecision | Refusal:
        ruling = await self._questions.decide(way.host, way.port, way.tag)
        if ruling.verdict is not Verdict.ASK:
            return ruling
        if addresses := local_addresses(way.host, self._local):
            fine = await self._dialer.judge(way.host, addresses, way.port, ruling, way.tag)
            if isinstance(fine, Refusal):
                return fine
        return await self._ask(way)

    async def _ask(self, way: GateConnection) -> HostDecision:
        answer = asyncio.create_task(self._questions.settle(way.host, way.port, way.tag))
        waits: set[asyncio.Task[HostDecision] | asyncio.Task[None]] = {answer}
        if way.has_client:
            waits.add(asyncio.create_task(wait_gone(way.client)))
        self._asking.append(way.tag)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            return HostDecision(
                Verdict.DENY, f"the program did not wait for an answer about {way.host}:{way.port}"
            )
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            self._asking.remove(way.tag)  # last: what comes of it is told before anybody else has a turn
