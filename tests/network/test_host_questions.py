"""Questions about hosts, without a gate."""

import asyncio

from pinfold.model.decision import Verdict
from pinfold.network.host_questions import Questions
from pinfold.network.limits import Limits
from pinfold.network.ruling import Ruling

WANTED = ("a.test", 443, "1:2")


def test_who_comes_just_when_nobody_waits_any_more_is_asked_about_anew() -> None:
    asked: list[asyncio.Future[Ruling]] = []

    async def decide(host: str, port: int | None, tag: str) -> Ruling:
        return Ruling(Verdict.ASK)

    async def ask(host: str, port: int, tag: str, ruling: Ruling) -> Ruling:
        asked.append(asyncio.get_running_loop().create_future())
        return await asked[-1]

    async def test() -> Ruling:
        questions = Questions(decide, ask, Limits())
        first = asyncio.create_task(questions.settle(*WANTED))
        while not asked:
            await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(questions.settle(*WANTED))
        while len(asked) < 2 and not second.done():
            await asyncio.sleep(0)
        if not second.done():
            asked[-1].set_result(Ruling(Verdict.ALLOW))
        return await second

    assert asyncio.run(test()).verdict is Verdict.ALLOW
