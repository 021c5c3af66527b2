"""One work, done by everyone in turns.

Each round gives each contender one turn, in an order that is drawn for it: each finds the caches as the one
before has left them, and that is worth 5% and more. Whoever is slow leaves after a while, having had the
fewest turns that count; bare stays as long as there is anyone to compare it with.
"""

import sys
from contextlib import ExitStack, closing
from random import Random
from time import monotonic

from bench.contenders import BARE, Contender, ContenderError, Place, Runner
from bench.ground import Ground
from bench.report import Outcome
from bench.works import Turn, Work

FEWEST = 3

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


def ready(stack: ExitStack, contender: Contender, program: str, ground: Ground) -> tuple[Place, Runner]:
    place = stack.enter_context(ground.place())
    return place, stack.enter_context(closing(contender.ready(program, place)))


def takes_part(contender: Contender, work: Work) -> bool:
    among, works = work.among, contender.works
    return (not among or contender.name in among) and (not works or work.name in works)


class Contest:
    def __init__(
        self, work: Work, found: Found, ground: Ground, progress: Progress, scale: float, patience: float
    ) -> None:
        self.work, self.found, self.ground, self.progress = work, found, ground, progress
        self.scale, self.patience = scale, patience
        self.seconds: dict[str, list[float]] = {
            name: [] for name, (contender, _) in found.items() if takes_part(contender, work)
        }
        self.spent = dict.fromkeys(self.seconds, 0.0)
        self.troubles: dict[str, str] = {}
        self.standing: dict[str, Turn] = {}
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
        began = monotonic()
        try:
            self.seconds[name].append(self._measured(name, whole))
        except (ContenderError, OSError) as error:
            self.troubles[name] = str(error)
        self.spent[name] += monotonic() - began

    def _measured(self, name: str, whole: ExitStack) -> float:
        if self.work.fresh:
            with ExitStack() as own:
                return self.work.measure(self._turn(name, own))
        if name not in self.standing:
            self.standing[name] = self._turn(name, whole)
            self.work.measure(self.standing[name])  # what only a first time costs
        return self.work.measure(self.standing[name])

    def _turn(self, name: str, stack: ExitStack) -> Turn:
        contender, program = self.found[name]
        place, runner = ready(stack, contender, program, self.ground)
        self.work.prepare(place, self.scale)
        runner.run(["true"])
        return Turn(contender, program, place, runner, self.scale)
