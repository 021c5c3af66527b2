"""Questions about hosts, without a gate."""

import asyncio

from pinfold.model.decision import Verdict
from pinfold.network.host_decision import HostDecision
from pinfold.network.host_questions import Questions
from pinfold.network.limits import GateLimits

WANTED = ("a.test", 443, "1:2")


def test_who_comes_just_when_nobody_waits_any_more_is_asked_about_anew() -> None:
    asked: list[asyncio.Future[HostDecision]] = []

    async def decide(host: str, port: int | None, tag: str) -> HostDecision:
        return HostDecision(Verdict.ASK)

    async def ask(host: str, port: int, tag: str, ruling: HostDecision) -> HostDecision:
        asked.append(asyncio.get_running_loop().create_future())
        return await asked[-1]

    async def test() -> HostDecision:
        questions = Questions(decide, ask, GateLimits())
        first = asyncio.create_task(questions.settle(*WANTED))
        while not asked:
            await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(questions.settle(*WANTED))
        while len(asked) < 2 and not second.done():
            await asyncio.sleep(0)
        if not second.done():
            asked[-1].set_result(HostDecision(Verdict.ALLOW))
        return await second

    assert asyncio.run(test()).verdict is Verdict.ALLOW
