"""What the making of names costs in a pen, where the warden makes each, against the same bare.

Usage: python -m bench.names [rounds] [directory]. Both take turns, each round in a fresh directory: the same
one again would make some file systems slower by itself. Without a directory they get a `ground` of their own.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from statistics import median

from bench.ground import Ground
from bench.memory import megabytes
from bench.works import timed
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.policy.shipped_protected import name_rules
from pinfold.sandbox.backend import Found, StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
FILES, EACH = 5000, 50
MADE_FIRST, MADE_EACH_ROUND = 20_000, 30_000
"""Inodes: a new one for each name, since none is given out again for minutes."""
PYTHON = "/usr/bin/python3"
UNPACK = "mkdir {0} && tar -xf {1}/files.tar -C {0} && rm -r {0}"
LOOP = """
import os, time
os.mkdir({0!r}); os.chdir({0!r})
count = 2000
open("there", "w").close()
def each(what, flags, name):
    began = time.perf_counter()
    for number in range(count):
        os.close(os.open(name % number if "%" in name else name, flags, 0o644))
    print(what, (time.perf_counter() - began) / count * 1e6)
each("write-open", os.O_WRONLY, "there")
each("create-open of what exists", os.O_WRONLY | os.O_CREAT, "there")
each("create", os.O_WRONLY | os.O_CREAT | os.O_EXCL, "new%d")
each("create, in a path", os.O_WRONLY | os.O_CREAT, {0!r} + "/other%d")
began = time.perf_counter()
for number in range(count): os.mkdir("d%d" % number)
print("mkdir", (time.perf_counter() - began) / count * 1e6)
began = time.perf_counter()
for number in range(count): os.rename("d%d" % number, "e%d" % number)
print("rename", (time.perf_counter() - began) / count * 1e6)
"""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory(dir=sys.argv[2]) as work:
            return bench(work, rounds)
    with closing(Ground(inodes=MADE_FIRST + MADE_EACH_ROUND * rounds)) as ground, ground.place() as place:
        print(f"on {ground.kind}")
        return bench(place.work, rounds)


def bench(work: str, rounds: int) -> None:
    for number in range(FILES):
        path = f"{work}/files/d{number // EACH}/f{number}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(f"{number}\n" * 100)
    subprocess.run(["tar", "-cf", f"{work}/files.tar", "-C", f"{work}/files", "."], check=True)
    backend = LinuxBackend()
    session = backend.open_session([work], lambda _: Found(names=name_rules(())))
    pen = session.pen(POLICY)

    def fenced(argv: list[str]) -> str:
        result = session.run(StartRequest(tuple(argv), POLICY, work))
        if result.exit_code:
            raise SystemExit(result.stderr.decode())
        return result.stdout.decode()

    def bare(argv: list[str]) -> str:
        return subprocess.run(argv, check=True, cwd=work, capture_output=True, text=True).stdout

    ways = {"pen": fenced, "bare": bare}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name, run in ways.items():
            line = UNPACK.format(f"{work}/{name}{turn}", work)
            times[name].append(timed(partial(run, ["sh", "-c", line])) * 1e3)
    ours, theirs = median(times["pen"]), median(times["bare"])
    print(f"unpack {FILES} files and rm   pen {ours:8.1f} ms  bare {theirs:8.1f} ms  {ours / theirs:5.2f}x")
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
    for turn in range(rounds):
        for name, run in ways.items():
            loop(partial(run, [PYTHON, "-c", LOOP.format(f"{work}/loop-{name}{turn}")]), found[name])
    for what, kept in found["pen"].items():
        ours, theirs = median(kept), median(found["bare"][what])
        print(f"{what:28} pen {ours:8.1f} us  bare {theirs:8.1f} us  +{ours - theirs:.1f} us")
    if os.geteuid() == 0:
        both = [pen.pid, *wardens(session.keeper.pid)]
        if (memory := megabytes(both)) is not None:
            print(f"memory of the pen (PSS)     {memory:8.2f} MB")
    session.close()
    backend.close()


def loop(run: Callable[[], str], found: dict[str, list[float]]) -> None:
    for line in run().splitlines():
        what, _, time = line.rpartition(" ")
        found.setdefault(what, []).append(float(time))


def wardens(keeper: int) -> list[int]:
    """The wardens among a keeper's children."""
    with open(f"/proc/{keeper}/task/{keeper}/children") as file:
        children = [int(word) for word in file.read().split()]
    return [pid for pid in children if _name(pid) == "pinfold-warden"]


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


if __name__ == "__main__":
    main()
