"""What the contenders of `bench.peers` are given to do, and how long it took them.

A work may prepare the place, untimed, before each turn. Most are timed from outside; the two about single
calls time themselves, inside, and tell the cost of a call without that of the loop.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import partial
from time import perf_counter, sleep
from typing import NamedTuple

from bench.contenders import Contender, Pinfold, Place, Runner, one_shot
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import StartRequest
from pinfold.sandbox.linux.host.session import LinuxSession

FILES, MADE, CALLS, PENS, OUTPUT = 5_000, 10_000, 5_000, 200, 10_000_000
STRIDE = 1_877  # with no divisor of FILES: neighbours differ in size, and each size comes up once
REST = 0.1
POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)

CALL = """
import os, sys
from time import perf_counter_ns as now
what, where, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = [where + '/f%d' % number for number in range(count)]
flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
if what == 'open':
    names, flags = [where + '/there'] * count, os.O_WRONLY
    os.close(os.open(names[0], flags | os.O_CREAT))
began = now()
for name in names:
    os.close(os.open(name, flags))
took = now() - began
if what == 'files':
    for name in names:
        os.unlink(name)
began = now()
for name in names:
    pass
print((took - (now() - began)) / count / 1e9)
"""

FUNCTION = 'int f%d(int x) { char b[64]; sprintf(b, "%%d", x * %d); return atoi(b) + (int)strlen(b); }\n'
SOURCE = (
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    + "".join(FUNCTION % (number, number) for number in range(40))
    + "int main(void) { return f1(1) == f39(39); }\n"
)


class Turn(NamedTuple):
    contender: Contender
    program: str
    place: Place
    runner: Runner
    scale: float
    """How much of it; less when in a hurry."""

    def many(self, count: int) -> int:
        return max(1, int(count * self.scale))


class Work(NamedTuple):
    name: str
    about: str
    measure: Callable[[Turn], float]
    """Seconds."""
    prepare: Callable[[Place, float], None] = lambda _, __: None
    turns: float = 1.0
    """How many, as a multiple of the rounds asked for."""
    fresh: bool = False
    """Whether each turn is in a new place: where files are made, the last turn's would be in the way."""
    among: tuple[str, ...] = ()
    """Who takes part; empty is everyone."""


def timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def command(*words: str, at_once: int = 1) -> Callable[[Turn], float]:
    """The time of a command; `{work}` becomes the workspace."""

    def measure(turn: Turn) -> float:
        argv = [word.replace("{work}", turn.place.work) for word in words]
        return timed(lambda: turn.runner.run(argv, at_once))

    return measure


def calls(what: str, turn: Turn) -> float:
    """Seconds of one call, as the program itself saw it."""
    count = str(turn.many(MADE if what == "files" else CALLS))
    return float(turn.runner.run([sys.executable, "-I", "-S", "-c", CALL, what, turn.place.work, count]))


def made_and_deleted(turn: Turn) -> float:
    return timed(lambda: calls("files", turn))


def cold(turn: Turn) -> float:
    words = turn.contender.cold(turn.program, turn.place)
    return timed(lambda: one_shot([*words, "true"], turn.place))


def pens_of(runner: Pinfold) -> LinuxSession:
    fence = runner.session.sandboxes.sandboxed()
    assert isinstance(fence, LinuxSession)
    return fence


def in_the_pen(turn: Turn) -> float:
    if not isinstance(turn.runner, Pinfold):
        return command("true")(turn)
    request = StartRequest(("true",), POLICY, turn.place.work)
    fence = pens_of(turn.runner)
    fence.pen(POLICY)
    return timed(lambda: fence.run(request))


def new_policy(number: int) -> SandboxPolicy:
    """One that no pen has yet."""
    return SandboxPolicy(POLICY.type, published_ports=(number,))


def new_pen(turn: Turn) -> float:
    """After a rest, as after a person's answer; `memory.crowd` tells how long many take in a row."""
    sleep(REST)
    if not isinstance(turn.runner, Pinfold):
        return command("true")(turn)
    fence = pens_of(turn.runner)
    return timed(lambda: fence.pen(new_policy(len(fence.pens) + 1)))


def plant(place: Place, scale: float, size: Callable[[int], float] = lambda _: 800) -> None:
    """A tree of small files, or of the bytes that `size` gives to a number; a hundred to a directory."""
    os.mkdir(f"{place.work}/tree")
    for number in range(max(1, int(FILES * scale))):
        directory = f"{place.work}/tree/d{number // 100}"
        os.makedirs(directory, exist_ok=True)
        line = f"line of file {number}\n"
        with open(f"{directory}/f{number}.txt", "w") as file:
            file.write(line * (int(size(number)) // len(line)))
        # An index made in the second of its files' last change makes git read them all.
        os.utime(file.name, (1e9, 1e9))


def plant_sources(place: Place, scale: float) -> None:
    """A tree with the sizes of a source tree: 200 bytes to 60 kB, with a median of 3.5 kB and a mean of 10.5.

    Measured: 5,165 files of Python packages have 3.1 and 10.4 kB, 7,910 C headers 4.9 and 14.1, 1,642 of
    node_modules 4.0 and 11.2.
    """
    plant(place, scale, lambda number: 200 * 300 ** (number * STRIDE % FILES / FILES))


def plant_repository(place: Place, scale: float) -> None:
    plant(place, scale)
    git = ["git", "-C", f"{place.work}/tree", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"], ["status", "--short"]):
        subprocess.run([*git, *words], check=True, capture_output=True)


def pack(place: Place, scale: float) -> None:
    plant(place, scale)
    with tarfile.open(f"{place.work}/tree.tar", "w") as archive:
        archive.add(f"{place.work}/tree", "unpacked")


def write_source(place: Place, _: float) -> None:
    with open(f"{place.work}/main.c", "w") as file:
        file.write(SOURCE)


UNPACK = "tar -xf {work}/tree.tar -C {work} && rm -r {work}/unpacked"
WORKS = (
    Work("true", "`true`, with its output captured", command("true"), turns=10),
    Work(
        "pen-true",
        "`true`, neither decided nor journaled",
        in_the_pen,
        turns=10,
        among=("bare", "pinfold"),
    ),
    Work("cold", "`true`, cold (bare: `python -I -c pass`)", cold, turns=2),
    Work("at-once-2", "`true`, 2 at once", command("true", at_once=2), turns=2),
    Work("at-once-64", "`true`, 64 at once", command("true", at_once=64), turns=0.25),
    Work(
        "git-status",
        "`git status` of 5,000 files",
        command("git", "-C", "{work}/tree", "status", "--short"),
        plant_repository,
        turns=4,
    ),
    Work(
        "grep",
        "`grep -r` over 5,000 files of a source tree's sizes",
        command("grep", "-rc", "file 77$", "{work}/tree"),
        plant_sources,
        turns=4,
    ),
    Work(
        "grep-small",
        "`grep -r` over 5,000 files of 800 bytes, which is nearly opening them alone",
        command("grep", "-rc", "file 77$", "{work}/tree"),
        plant,
        turns=4,
    ),
    Work(
        "compile",
        "a small C program, compiled",
        command("gcc", "-O1", "-o", "{work}/out", "{work}/main.c"),
        write_source,
    ),
    Work("output", "10 MB of output, captured", command("head", "-c", str(OUTPUT), "/dev/zero")),
    Work("files", "10,000 files made and deleted", made_and_deleted, turns=0.5, fresh=True),
    Work(
        "tarball",
        "a tarball of 5,000 files unpacked and removed",
        command("sh", "-c", UNPACK),
        pack,
        0.5,
        True,
    ),
    Work("open", "one open of an existing file for writing, and close", partial(calls, "open"), fresh=True),
    Work("create", "one create of a file, and close", partial(calls, "create"), fresh=True),
    Work(
        "pen", "a new sandbox in a session, after a rest (bare: `true`)", new_pen, among=("bare", "pinfold")
    ),
)
