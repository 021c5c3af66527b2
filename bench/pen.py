"""A command in a warm pen against the same bare, in one run; and what a pen costs to make and to keep.

Usage: python bench/pen.py [rounds]. Ratios are what counts: both take turns, and meet the same machine.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import Request
from pinfold.sandbox.linux.backend import LinuxBackend

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def turns(rounds: int, *works: Callable[[], object]) -> list[list[float]]:
    """The milliseconds of each, taking turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, kept in zip(works, times, strict=True):
            kept.append(timed(work))
    return times


def memory(pid: int) -> float:
    """PSS in MB."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def row(name: str, pen: list[float], bare: list[float]) -> None:
    low, high = sorted(pen), sorted(bare)
    p95 = int(len(pen) * 0.95)
    print(
        f"{name:24} pen {median(pen):7.3f} ms  bare {median(bare):7.3f} ms  "
        f"p50 {median(pen) / median(bare):5.2f}x  p95 {low[p95] / high[p95]:5.2f}x"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as work:
        bench(work, rounds)


def bench(work: str, rounds: int) -> None:
    backend = LinuxBackend()
    began = time.perf_counter()
    session = backend.open_session([work])
    print(f"keeper and first session  {(time.perf_counter() - began) * 1000:7.2f} ms")
    print(f"first pen                 {timed(lambda: session.pen(POLICY)):7.2f} ms")
    made = [timed(lambda: backend.open_session([work])) for _ in range(20)]
    print(f"another session           {median(made):7.2f} ms")
    policies = [SandboxPolicy(POLICY.type, published_ports=(number,)) for number in range(1, 41)]
    new = [timed(partial(session.pen, policy)) for policy in policies]
    print(f"another pen               {median(new):7.2f} ms")
    pens = [pen for _, pen in session.pens]
    if os.geteuid() == 0:
        each = sum(memory(pen.pid) for pen in pens) / len(pens)
        print(f"memory of {len(pens)} pens (PSS)  {each:7.2f} MB each")

    def pen(*argv: str) -> Callable[[], object]:
        return lambda: session.run(Request(argv, POLICY, work))

    def bare(*argv: str) -> Callable[[], object]:
        return lambda: subprocess.run(argv, capture_output=True, cwd=work)

    for name, argv, count in (
        ("true", ("true",), rounds),
        ("/bin/true", ("/bin/true",), rounds),
        ("sh -c true", ("sh", "-c", "true"), rounds // 2),
        ("python -S -c pass", ("/usr/bin/python3", "-S", "-c", "pass"), rounds // 10),
        ("10 MB of output", ("head", "-c", "10000000", "/dev/zero"), rounds // 20),
    ):
        turns(5, pen(*argv), bare(*argv))
        row(name, *turns(count, pen(*argv), bare(*argv)))
    for count in (2, 64):
        row(f"{count} at once", *turns(5, together(count, pen("true")), together(count, bare("true"))))
    began = time.perf_counter()
    many = [SandboxPolicy(POLICY.type, published_ports=(1000 + number,)) for number in range(200)]
    for policy in many:
        session.pen(policy)
    print(f"200 more pens             {(time.perf_counter() - began) * 1000:7.0f} ms")
    print(f"closing them              {timed(session.close):7.0f} ms")
    backend.close()


def together(count: int, work: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


if __name__ == "__main__":
    main()
