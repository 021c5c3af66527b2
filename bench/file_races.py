"""Links that are swapped while the file tools read and write by their names: nothing outside may be reached.

Usage: python -m bench.file_races [turns]; 10,000 of each kind unless told otherwise. What holds is said by
`race` in tests/files/races.py, which the tests run for a few turns.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.files.races import RACES, SECRET, race

import pinfold


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(
        dir="/var/lib" if not os.geteuid() else os.path.expanduser("~")
    ) as house:
        os.environ["HOME"] = house
        for kind in RACES:
            work, outside = Path(house, f"work-{kind}"), Path(house, f"outside-{kind}")
            for each in (work, outside):
                each.mkdir()
            (outside / "secret").write_text(SECRET)
            began = time.monotonic()
            with pinfold.Session([str(work)], cwd=str(work)) as session:
                got = race(turns, kind, session.files, work, outside)
            told = ", ".join(f"{each!r} {times}" for each, times in got.most_common())
            spent = time.monotonic() - began
            print(f"{kind}: {turns} turns, nothing gained, {spent:.0f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
