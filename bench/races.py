"""Attacks on calls that wait for a person, as often as it takes: nothing may come of any.

Usage: python -m bench.races [turns [kind...]]. A thread rewrites the path, swaps a link or a descriptor, and
processes exec or die, while a call waits; 10,000 turns of each unless told otherwise. What holds is said by
`race` in tests/session/probes/write_questions.py, which the tests run for a few turns.
"""

import os
import sys
import tempfile
import time


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(
        dir="/var/lib" if not os.geteuid() else os.path.expanduser("~")
    ) as house:
        for name in ("home", "work"):
            os.mkdir(f"{house}/{name}")
        os.environ["HOME"] = f"{house}/home"
        os.chdir(f"{house}/work")
        from tests.session.probes import write_questions

        for kind in sys.argv[2:] or write_questions.RACES:
            began = time.monotonic()
            write_questions.race(turns, kind)
            print(f"{kind}: {turns} turns, nothing gained, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
