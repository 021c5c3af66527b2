"""Races that an attacker may run as often as they like: nothing may come of any.

Usage: python -m bench.races [calls|files] [turns]; 10,000 turns of each unless told otherwise.
- calls: a thread rewrites the path, swaps a link or a descriptor, and processes exec or die, while a call
  waits for a person. What holds is said by `race` in tests/session/elevations.py.
- files: links are swapped while the file tools read and write by their names: `race` in tests/files/races.py.
The tests run both for a few turns.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

KINDS = ("calls", "files")


def main() -> None:
    words = sys.argv[1:]
    kinds = [word for word in words if word in KINDS] or list(KINDS)
    turns = int(next((word for word in words if word.isdecimal()), 10_000))
    with tempfile.TemporaryDirectory(
        dir="/var/lib" if not os.geteuid() else os.path.expanduser("~")
    ) as house:
        for name in ("home", "work"):
            os.mkdir(f"{house}/{name}")
        os.environ["HOME"] = f"{house}/home"
        os.chdir(f"{house}/work")
        if "calls" in kinds:
            calls(turns)
        if "files" in kinds:
            files(turns, Path(house))


def calls(turns: int) -> None:
    from tests.session import elevations

    for kind in elevations.RACES:
        began = time.monotonic()
        elevations.race(turns, kind)
        print(f"{kind}: {turns} turns, nothing gained, {time.monotonic() - began:.0f} s", flush=True)


def files(turns: int, house: Path) -> None:
    from tests.files.races import RACES, SECRET, race

    import pinfold

    for kind in RACES:
        work, outside = house / f"work-{kind}", house / f"outside-{kind}"
        for each in (work, outside):
            each.mkdir()
        (outside / "secret").write_text(SECRET)
        began = time.monotonic()
        with pinfold.Session([str(work)], cwd=str(work)) as session:
            got = race(turns, kind, session.files, work, outside)
        told = ", ".join(f"{each!r} {times}" for each, times in got.most_common())
        print(f"{kind}: {turns} turns, nothing gained, {time.monotonic() - began:.0f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
