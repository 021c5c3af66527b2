"""What a survey of a workspace costs, beside a bare walk of the same tree: `bench/survey.py [files]`."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.workspace import dir_cache
from pinfold.workspace.scan import WorkspaceScanner

IN_A_DIRECTORY = 10
ROUNDS = 9


def fill(top: str, files: int) -> None:
    for number in range(files):
        directory = f"{top}/src/part{number // 1000}/module{number // IN_A_DIRECTORY}"
        if number % IN_A_DIRECTORY == 0:
            os.makedirs(directory)
        with open(f"{directory}/Component{number % IN_A_DIRECTORY}.tsx", "w"):
            pass
    os.makedirs(f"{top}/.git/hooks")


def bare(top: str) -> None:
    for _ in os.walk(top):
        pass


def timed(*works: Callable[[], object]) -> list[float]:
    """The best time of each, taken in turns: other work on the machine strikes all of them alike."""
    spans: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, found in zip(works, spans, strict=True):
            began = time.perf_counter()
            work()
            found.append((time.perf_counter() - began) * 1000)
    return [min(found) for found in spans]


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    top = os.path.realpath(tempfile.mkdtemp())
    try:
        fill(top, files)
        policy = SandboxPolicy(
            type=PolicyType.WORKSPACE_READWRITE,
            hidden=(".env", "*.pem", "*.key"),
            ignore_mapping={top: ("secret/", "/dist/x")},
        )
        dir_cache.SETTLED = 0
        surveyor = WorkspaceScanner([top], "/nowhere")
        surveyor(policy)
        walked, first, again = timed(
            lambda: bare(top), lambda: WorkspaceScanner([top], "/nowhere")(policy), lambda: surveyor(policy)
        )
    finally:
        shutil.rmtree(top)
    print(f"{files} files, best of {ROUNDS}")
    print(f"os.walk               {walked:8.2f} ms")
    print(f"a first survey        {first:8.2f} ms  {first / walked:5.2f}x")
    print(f"the next, unchanged   {again:8.2f} ms  {again / walked:5.2f}x")


if __name__ == "__main__":
    main()
