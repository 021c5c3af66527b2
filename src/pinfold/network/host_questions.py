"""Whether a host may be reached: by the rules, and where they are silent by asking a person.

INVARIANT: one question for a host and a command is open at a time. Where the command wants the same host and
port meanwhile, that gets the same answer; another port of it is decided about anew when the answer is there,
which may have settled that too. Other commands, of the same pen too, have questions of their own: a person
was shown this one. A question that nobody waits for any more is withdrawn. Whatever fails, or is late, is a
no.
"""

import asyncio
from functools import partial
from typing import NamedTuple

from pinfold.model.decision import Verdict
from pinfold.network.host_decision import Ask, Decide, HostDecision
from pinfold.network.limits import GateLimits

BY_A_PERSON = "a person's answer"


class _Open(NamedTuple):
    port: int
    task: "asyncio.Task[HostDecision]"
    waiting: list[None]
    """One for each connection that waits."""


class Questions:
    def __init__(self, decide: Decide, ask: Ask, limits: GateLimits) -> None:
        self._decide, self._ask, self._limits = decide, ask, limits
        self._open: dict[tuple[str, str], _Open] = {}

    async def settle(self, host: str, port: int, tag: str) -> HostDecision:
        """ALLOW or DENY, for a canonical host."""
        while True:
            ruling = await self.decide(host, port, tag)
            if ruling.verdict is not Verdict.ASK:
                return ruling
            about = host, tag
            question = self._open.get(about)
            if question is None:
                task = asyncio.create_task(self._put(host, port, tag, ruling))
                question = self._open[about] = _Open(port, task, [])
                task.add_done_callback(partial(self._forget, about))
            answer = await self._wait(about, question)
            if question.port == port:
                return answer

    def _forget(self, about: tuple[str, str], task: "asyncio.Task[HostDecision]") -> None:
        question = self._open.get(about)
        if question and question.task is task:
            del self._open[about]

    async def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        """What the rules say; no, if they say nothing."""
        try:
            async with asyncio.timeout(self._limits.decision):
                return await self._decide(host, port, tag)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            return HostDecision(Verdict.DENY, f"the rules about {host} could not be asked: {_said(error)}")

    async def _put(self, host: str, port: int, tag: str, ruling: HostDecision) -> HostDecision:
        try:
            async with asyncio.timeout(self._limits.answer):
                answer = await self._ask(host, port, tag, ruling)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            return HostDecision(Verdict.DENY, f"nobody could be asked about {host}:{port}: {_said(error)}")
        if answer.verdict is not Verdict.ALLOW:
            said = answer.message or f"{host}:{port} was asked for, and the answer is no"
            return answer._replace(verdict=Verdict.DENY, message=said, rule="", files=(), unnamed_tls=False)
        return answer._replace(rule=answer.rule or BY_A_PERSON)

    async def _wait(self, about: tuple[str, str], question: _Open) -> HostDecision:
        question.waiting.append(None)
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting.pop()
            if not question.waiting:
                self._forget(about, question.task)  # it takes a moment to end, and may be nobody's until then
                question.task.cancel()


def _said(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else f"{error}" or type(error).__name__
