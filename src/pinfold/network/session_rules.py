"""What the session says about hosts, as the gate uses it. INVARIANT: what fails, or is late, is a no."""

import asyncio

from pinfold.model.decision import Verdict
from pinfold.network.host_decision import Decide, HostDecision, OpenHost
from pinfold.network.limits import GateLimits


class SessionRules:
    def __init__(self, decide: Decide, open: OpenHost, limits: GateLimits) -> None:
        self._decide, self._open, self._limits = decide, open, limits

    async def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        """What the rules say; no, if they say nothing."""
        try:
            async with asyncio.timeout(self._limits.decision):
                return await self._decide(host, port, tag)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            return _failed(host, error)

    async def open(
        self, host: str, port: int, tag: str
    ) -> "tuple[HostDecision, asyncio.Future[HostDecision] | None]":
        """What the rules say, and the answer to come if that is ASK."""
        try:
            async with asyncio.timeout(self._limits.decision):
                return await self._open(host, port, tag)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            return _failed(host, error), None

    def answer(self, host: str, port: int, answer: "asyncio.Future[HostDecision]") -> HostDecision:
        """ALLOW or DENY: what came of a question, or that it took too long."""
        try:
            said = answer.result()
        except asyncio.InvalidStateError:
            return _unasked(host, port, "it took too long")
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            return _unasked(host, port, _text(error))
        if said.verdict is Verdict.ALLOW:
            return said
        why = said.message or f"{host}:{port} was asked for, and the answer is no"
        return said._replace(verdict=Verdict.DENY, message=why, files=(), unnamed_tls=False)

    @property
    def patience(self) -> float:
        """Seconds that a person may take."""
        return self._limits.answer


def _failed(host: str, error: Exception) -> HostDecision:
    return HostDecision(Verdict.DENY, f"the rules about {host} could not be asked: {_text(error)}")


def _unasked(host: str, port: int, why: str) -> HostDecision:
    return HostDecision(Verdict.DENY, f"no question about {host}:{port} could be asked: {why}")


def _text(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else f"{error}" or type(error).__name__
