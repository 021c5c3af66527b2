"""Look-ups: as many at a time as there are threads, and no command has them all."""

import asyncio
from collections.abc import Sequence

from pinfold.model.fair_share import fair_share, has_room
from pinfold.network.dns_lookup import MOST_AT_ONCE, LookUpQueue


class Names:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = asyncio.Event()

    async def look_up(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if name.startswith("slow"):
            await self.go.wait()
        return (name,)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_one_command_leaves_others_look_ups() -> None:
    async def run() -> None:
        names = Names()
        look_ups = LookUpQueue(names.look_up)
        slow = [asyncio.create_task(look_ups.find(f"slow{n}", "1")) for n in range(100)]
        await turns()
        assert len(names.asked) == fair_share(MOST_AT_ONCE, 0) < MOST_AT_ONCE
        assert await look_ups.find("quick", "2") == ("quick",)
        names.go.set()
        assert [await each for each in slow] == [(f"slow{n}",) for n in range(100)]
        assert len(names.asked) == 101

    asyncio.run(run())


def test_a_look_up_counts_until_it_is_done() -> None:
    """Its thread goes on though its command has given up."""

    async def run() -> None:
        names = Names()
        look_ups = LookUpQueue(names.look_up)
        most = fair_share(MOST_AT_ONCE, 0)
        for n in range(most + 5):
            task = asyncio.create_task(look_ups.find(f"slow{n}", "1"))
            await turns()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len(names.asked) == most
        names.go.set()
        await turns()
        assert await look_ups.find("quick", "1") == ("quick",)

    asyncio.run(run())


def test_no_few_commands_take_all() -> None:
    """Each takes as much as it gets; every further one gets something until nothing is left."""
    for most in range(1, 300):
        holders: list[int] = []
        commands = 0
        while len(holders) < most:
            commands += 1
            before = len(holders)
            while has_room(holders, commands, most):
                holders.append(commands)
            assert len(holders) > before
        assert commands >= 3 or most < 5
        assert not has_room(holders, commands + 1, most)
