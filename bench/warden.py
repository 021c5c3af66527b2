"""What a pen costs whose warden can ask a person, against the same bare, with what is aimed at.

Usage: python -m bench.warden [rounds]. Both take turns, each round in fresh directories. The calls time
themselves, inside, in batches, of which the lower quartile counts: what other programs of the machine take is
not their cost. `git status` is timed so too, by a program that starts it, and once more as a command of its
own, with its decision, its two journal lines and its way in and out. The last figures are of a command beside
one with a thousand calls that wait for a person, all of one pen and one warden.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from statistics import median
from time import monotonic, sleep

import pinfold
from bench.contenders import Place
from bench.ground import Ground
from bench.names import loop
from bench.works import SOURCE, plant_repository, timed

PYTHON = "/usr/bin/python3"
CALLS = """
import os, sys
from time import perf_counter
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
count, batch, here = 4000, 50, sys.argv[1] + "/"
open("there", "w").close()
def each(what, call, *names):
    times = []
    for first in range(0, count, batch):
        some = names[first : first + batch]
        began = perf_counter()
        for name in some: call(name)
        times.append((perf_counter() - began) / batch * 1e6)
    print(what, sorted(times)[len(times) // 4])
def opened(name): os.close(os.open(name, os.O_WRONLY))
def created(name): os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
names = ["f%d" % number for number in range(count)]
each("open, absolute", opened, *[here + "there"] * count)
each("open, relative", opened, *["there"] * count)
each("create, absolute", created, *[here + name for name in names])
each("unlink, absolute", os.unlink, *[here + name for name in names])
each("create, relative", created, *names)
each("unlink, relative", os.unlink, *names)
"""
STATUSES = """
import subprocess, sys
from time import perf_counter
for _ in range(20):
    began = perf_counter()
    subprocess.run(sys.argv[1:], check=True, capture_output=True)
    print(perf_counter() - began)
"""
AIMS = {"open": 15.0, "create": 60.0}
"""Microseconds more than bare."""
GIT, BUILD, BESIDE = 1.05, 1.2, 2.0
"""Times as long."""
WRITERS, SOURCES, PENDING, BESIDES = 8, 24, 1000, 50
MAKEFILE = "all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n"
WAITING = """
import sys, threading
def one(number):
    try: open(sys.argv[1] + "/%d" % (number % 20), "w")
    except OSError: pass
threading.stack_size(65536)
all = [threading.Thread(target=one, args=(number,)) for number in range(int(sys.argv[2]))]
for each in all: each.start()
print("waiting", flush=True)
for each in all: each.join()
"""

Run = Callable[[list[str]], str]


class Patient:
    """A person who can be asked, and takes their time."""

    name = "a patient person"

    def __init__(self) -> None:
        self.asked: list[pinfold.PermissionNeeded] = []
        self.over = threading.Event()

    def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer:
        self.asked.append(question)
        self.over.wait(300)
        return pinfold.Answer.NO


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with closing(Ground(inodes=60_000 + 10_000 * rounds)) as ground, ground.place() as place:
        os.environ["HOME"] = ground.home
        print(f"on {ground.kind}")
        bench(place, rounds)


def bench(place: Place, rounds: int) -> None:
    person = Patient()
    with pinfold.Session(
        [place.work], settings={"limits": {"processes": 4 * PENDING}}, approvers=[person]
    ) as session:

        def fenced(argv: list[str]) -> str:
            result = session.run(argv)
            if result.exit_code:
                raise SystemExit(result.stderr or result.refusal)
            return result.stdout

        def bare(argv: list[str]) -> str:
            return subprocess.run(argv, check=True, cwd=place.work, capture_output=True, text=True).stdout

        ways: dict[str, Run] = {"pen": fenced, "bare": bare}
        calls(place, ways, rounds)
        plant_repository(place, 1.0)
        status = ["git", "-C", f"{place.work}/tree", "status", "--short"]
        inside = [PYTHON, "-I", "-S", "-c", STATUSES, *status]
        times("git status, 5,000 files", ways, 2 * rounds, GIT, lambda run, _: low(seconds(run(inside))))
        times("... as its own command", ways, 5 * rounds, None, lambda run, _: timed(partial(run, status)))
        times("make -j8, 24 C files", ways, rounds, BUILD, partial(build, place))
        beside(place, session, person)


def calls(place: Place, ways: dict[str, Run], rounds: int) -> None:
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
    for turn in range(rounds):
        for name, run in ways.items():
            where = f"{place.work}/calls-{name}{turn}"
            loop(partial(run, [PYTHON, "-I", "-S", "-c", CALLS, where]), found[name])
    for what, kept in found["pen"].items():
        ours, theirs = low(kept), low(found["bare"][what])
        aim = AIMS.get(what.partition(",")[0])
        said = f"   aim +{aim:g} us: {'met' if ours - theirs <= aim else 'not met'}" if aim else ""
        print(f"{what:26} pen {ours:7.1f} us  bare {theirs:7.1f} us  +{ours - theirs:5.1f} us{said}")


def times(
    what: str, ways: dict[str, Run], rounds: int, aim: float | None, measure: Callable[[Run, str], float]
) -> None:
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name, run in ways.items():
            found[name].append(measure(run, f"{name}{turn}") * 1e3)
    told(what, ("pen", low(found["pen"])), ("bare", low(found["bare"])), aim)


def seconds(printed: str) -> list[float]:
    return [float(line) for line in printed.splitlines()]


def low(found: list[float]) -> float:
    return sorted(found)[len(found) // 4]


def told(what: str, ours: tuple[str, float], theirs: tuple[str, float], aim: float | None) -> None:
    ratio = ours[1] / theirs[1]
    said = f"     aim {aim:g}x: {'met' if ratio <= aim else 'not met'}" if aim else ""
    print(f"{what:26} {ours[0]} {ours[1]:7.1f} ms  {theirs[0]} {theirs[1]:7.1f} ms  {ratio:5.2f}x{said}")


def build(place: Place, run: Run, turn: str) -> float:
    where = f"{place.work}/build-{turn}"
    os.mkdir(where)
    for number in range(SOURCES):
        with open(f"{where}/part{number}.c", "w") as file:
            file.write(SOURCE.replace(" f", f" part{number}_f"))
    with open(f"{where}/Makefile", "w") as file:
        file.write(MAKEFILE)
    try:
        return timed(partial(run, ["make", "-s", f"-j{WRITERS}", "-C", where]))
    finally:
        shutil.rmtree(where)


def beside(place: Place, session: pinfold.Session, person: Patient) -> None:
    """How long a small command takes beside one that waits for a person, a thousand times."""
    outside = f"{place.top}/outside"
    os.mkdir(outside)

    def one() -> float:
        return timed(lambda: session.run("echo > here; cat here; rm here")) * 1e3

    alone = [one() for _ in range(BESIDES)]
    run = session.start([PYTHON, "-I", "-S", "-c", WAITING, outside, str(PENDING)])
    events = threading.Thread(target=lambda: list(run.events()))
    events.start()
    end = monotonic() + 60
    while len(person.asked) < 8:
        if monotonic() > end:
            raise SystemExit("no question was asked")
        sleep(0.05)
    sleep(2)  # until all of them wait
    together = [one() for _ in range(BESIDES)]
    told("a command beside 1,000", ("1,000 wait", median(together)), ("none", median(alone)), BESIDE)
    person.over.set()
    run.cancel()
    events.join()


if __name__ == "__main__":
    main()
