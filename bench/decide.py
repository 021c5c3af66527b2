"""How long a decision takes, against a bare interpreter in the same run.

Run: `make bench`, or `.venv/bin/python bench/decide.py [--rounds N]`.

Prints the median of each, and ratios; a number in milliseconds means little without the machine,
a ratio to `python -I -c pass` of the same minute means something anywhere.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep

from pinfold.session import Session

LINES = (
    "cd src && npm test",
    "git status && git diff | head -100",
    "FOO=1 make -j4",
    "grep -rn 'a|b;c' src | sort | uniq -c",
    "pytest -q 2>&1 | tail -20",
    'for f in *.py; do python -m py_compile "$f"; done',
    "git show $(git rev-parse HEAD)",
    "mkdir -p out && cp a.txt out/",
)
PINFOLD = str(Path(sys.executable).with_name("pinfold"))
AIMS = {"seen": 0.3, "new": 1.5, "cold": 6.0}
# On this path these would be paid for by every hook of every tool call.
NEVER_IMPORTED = (
    *("rich", "asyncio", "http", "subprocess", "dataclasses", "inspect", "pathlib", "typing_extensions"),
    *("uuid", "platform", "decimal", "gettext", "locale", "textwrap", "termios", "socket", "selectors"),
)
PROGRAM = """
import os, sys
os._exit = lambda code: print(*sys.modules) or sys.exit(code % 10)
from pinfold.cli import entry
entry()
"""


def median_ms(work: Callable[[int], object], rounds: int, pause: float = 0.0) -> float:
    """The median of many; `pause` lets what runs in the background settle, as an agent's thinking does."""
    times = []
    for number in range(rounds):
        sleep(pause)
        start = perf_counter()
        work(number)
        times.append(perf_counter() - start)
    return statistics.median(times) * 1e3


def started(*command: str) -> Callable[[int], object]:
    def start(_: int) -> object:
        return subprocess.run(command, capture_output=True, check=False)

    return start


def imported_by_check() -> list[str]:
    output = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, "check", "ls"], capture_output=True, text=True, check=False
    ).stdout
    return [name for name in NEVER_IMPORTED if name in output.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds

    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("settings.toml").write_text('[commands]\nallow = ["npm test"]\ndeny = ["git push"]\n')
        session = Session([directory], settings="settings.toml", cwd=directory)
        for line in LINES:
            session.check(line)
        seen = median_ms(lambda n: session.check(LINES[n % len(LINES)]), rounds * 10)
        new = median_ms(lambda n: session.check(f"{LINES[n % len(LINES)]} && echo {n}"), rounds * 5, 0.02)
        rush = median_ms(lambda n: session.check(f"{LINES[n % len(LINES)]} && ls {n}"), rounds * 5)
        # In turns: a machine that changes its pace in between would spoil the ratio.
        bare_start = started(sys.executable, "-I", "-c", "pass")
        cold_start = started(PINFOLD, "check", "--settings", "settings.toml", LINES[0])
        pairs = [(median_ms(bare_start, 1), median_ms(cold_start, 1)) for _ in range(rounds)]
        bare, cold = (statistics.median(times) for times in zip(*pairs, strict=True))

    print(
        f"a decision on a line seen before   {seen:8.3f} ms   {seen / bare:.3f}x bare (aim {AIMS['seen']} ms)"
    )
    print(f"a decision on a new line           {new:8.3f} ms   {new / bare:.3f}x bare (aim {AIMS['new']} ms)")
    print(f"the same, one upon the other       {rush:8.3f} ms   {rush / bare:.3f}x bare")
    print(f"python -I -c pass                  {bare:8.2f} ms")
    print(
        f"pinfold check, started cold        {cold:8.2f} ms   {cold / bare:.2f}x bare (aim {AIMS['cold']}x)"
    )
    print(f"imported though it should not be   {', '.join(imported_by_check()) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
