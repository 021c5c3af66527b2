"""One work, done by everyone in turns.

Each round gives each contender one turn, in an order that is drawn for it: each finds the caches as the one
before has left them, and that is worth 5% and more. Each comes after a rest, since the kernel still clears
away what the one before has left, network namespaces above all. A slow contender leaves after a while, having
had the fewest turns that count; bare stays as long as there is anyone to compare it with.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from random import Random
from time import monotonic, sleep
from typing import NamedTuple

from bench.contenders import BARE, Contender, ContenderError, Place, Runner
from bench.ground import Ground
from bench.report import Outcome
from bench.works import Turn, Work

FEWEST = 3
REST = 0.03
"""Seconds before each turn."""

Found = dict[str, tuple[Contender, str]]
"""Who takes part, and by which program."""


class Progress:
    """At most a line a second, on stderr."""

    def __init__(self) -> None:
        self.last = monotonic()

    def tell(self, text: str) -> None:
        if monotonic() - self.last >= 1:
            self.last = monotonic()
            print(f"bench: {text}", file=sys.stderr, flush=True)


class Seat(NamedTuple):
    """Where a contender sits: its place, itself made ready, and the thread that it is measured on."""

    place: Place
    runner: Runner
    thread: Executor


def ready(stack: ExitStack, contender: Contender, program: str, ground: Ground) -> Seat:
    place = stack.enter_context(ground.place())
    thread = stack.enter_context(ThreadPoolExecutor(1))
    thread.submit(contender.begin, place).result()
    return Seat(place, stack.enter_context(closing(contender.ready(program, place))), thread)


class Contest:
    def __init__(
        self, work: Work, found: Found, ground: Ground, progress: Progress, scale: float, patience: float
    ) -> None:
        self.work, self.found, self.ground, self.progress = work, found, ground, progress
        self.scale, self.patience = scale, patience
        self.seconds: dict[str, list[float]] = {
            name: [] for name in found if not work.among or name in work.among
        }
        self.spent = dict.fromkeys(self.seconds, 0.0)
        self.troubles: dict[str, str] = {}
        self.standing: dict[str, Callable[[], float]] = {}
        self.order = Random(work.name)

    def run(self, rounds: int) -> Outcome:
        rounds = max(FEWEST, round(rounds * self.work.turns))
        with ExitStack() as whole:
            for number in range(rounds):
                left = [name for name in self.seconds if not self._is_done(name)]
                if number >= FEWEST and left == [BARE.name]:
                    break
                for name in self.order.sample(left, len(left)):
                    self.progress.tell(f"{self.work.name}: {name}, round {number + 1} of {rounds}")
                    self._take(name, whole)
        kept = {name: times for name, times in self.seconds.items() if name not in self.troubles}
        return Outcome(self.work, kept, self.troubles)

    def _is_done(self, name: str) -> bool:
        if name in self.troubles:
            return True
        return name != BARE.name and len(self.seconds[name]) >= FEWEST and self.spent[name] > self.patience

    def _take(self, name: str, whole: ExitStack) -> None:
        sleep(REST)
        began = monotonic()
        try:
            self.seconds[name].append(self._measured(name, whole))
        except (ContenderError, OSError) as error:
            self.troubles[name] = str(error)
        self.spent[name] += monotonic() - began

    def _measured(self, name: str, whole: ExitStack) -> float:
        if self.work.fresh:
            with ExitStack() as own:
                return self._seated(name, own)()
        if name not in self.standing:
            self.standing[name] = self._seated(name, whole)
            self.standing[name]()  # what only a first time costs
        return self.standing[name]()

    def _seated(self, name: str, stack: ExitStack) -> Callable[[], float]:
        """What takes a turn of a contender, and tells its time, by the clock of its thread."""
        contender, program = self.found[name]
        place, runner, thread = ready(stack, contender, program, self.ground)
        self.work.prepare(place, self.scale)
        turn = Turn(contender, program, place, runner, self.scale)
        thread.submit(runner.run, ["true"]).result()
        return lambda: thread.submit(self.work.measure, turn).result()
