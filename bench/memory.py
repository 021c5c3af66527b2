"""What many pens at once cost: the time to make each, and the memory that they add.

Memory is the proportional set size of every process that descends from this one, before and after: a page
that pens share counts once, and nothing behind a pen (its spawner, its warden, what the keeper holds for
it) is left out. Pens' processes are closed to their own user's eyes, so only root can read it.
"""

import os
from typing import NamedTuple

from bench.contenders import Pinfold, Place
from bench.works import new_policy, pens_of, timed


class Crowd(NamedTuple):
    pens: int
    milliseconds: float
    """Of making each."""
    megabytes: float | None
    """Of each; None where it cannot be read."""
    processes: float
    """Of each."""


def descendants() -> list[int]:
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents.setdefault(int(file.read().rpartition(") ")[2].split()[1]), []).append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, next_of = [], [os.getpid()]
    while next_of:
        children = parents.get(next_of.pop(), [])
        found += children
        next_of += children
    return found


def megabytes(processes: list[int]) -> float | None:
    total = 0
    for pid in processes:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except PermissionError:
            return None
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            continue
    return total / 1024


def crowd(place: Place, pens: int) -> Crowd:
    runner = Pinfold(place)
    try:
        runner.run(["true"])
        fence = pens_of(runner)
        before = descendants()
        memory_before = megabytes(before)
        seconds = timed(lambda: [fence.pen(new_policy(number + 1)) for number in range(pens)])
        after = descendants()
        memory = megabytes(after)
        each = None if memory is None or memory_before is None else (memory - memory_before) / pens
        return Crowd(pens, seconds * 1e3 / pens, each, (len(after) - len(before)) / pens)
    finally:
        runner.close()
