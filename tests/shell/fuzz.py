"""Compares what bash starts with what `parse` foresees, for as long as it is told.

Run: `nice -n 19 .venv/bin/python -m tests.shell.fuzz --minutes 60 [--seed N]`. Prints each script that starts
what is not listed, and how many were tried.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter

from tests.shell.grammar import Grammar
from tests.shell.oracle import explains, is_open, make_stubs, run
from tests.shell.test_bash_agrees import TOKENS, Writer

from pinfold.shell import Parser, parse

MOST_FOUND = 50


def script_of(seed: int) -> str:
    match seed % 8:
        case 0:
            return Writer(seed).script()
        case 1:
            chance = random.Random(seed)
            return "".join(chance.choices(TOKENS, k=chance.randint(3, 14)))
        case 2:
            return mixed(seed)
        case _:
            return Grammar(seed).script()


def mixed(seed: int) -> str:
    """A script of the grammar with a few characters taken out, doubled or exchanged."""
    chance = random.Random(seed)
    text = list(Grammar(seed).script())
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text))
        text[at : at + 1] = chance.choice([[], [text[at]] * 2, [chance.choice("\"'`$\\{}()[]<>&|;#\n =")]])
        if not text:
            break
    return "".join(text)


def compared(text: str, asked: Parser, root: str) -> tuple[str, str]:
    """What became of a script, and what of it is not among what `parse` foresaw."""
    try:
        script = parse(text, parser=asked)
    except Exception as error:  # noqa: BLE001 - every one of them is a finding
        return "crashed", repr(error)
    if script.problem:
        return "unreadable", ""
    if is_open(script):
        return "open", ""
    missed = (argv for argv in run(text, root) if not explains(script, argv))
    return "closed", " ".join(next(missed, ()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1_000_000)
    options = parser.parse_args()
    end, seed = time.monotonic() + options.minutes * 60, options.seed
    tried: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root, Parser(warm=True) as asked:
        make_stubs(root)
        while time.monotonic() < end and tried["not listed"] < MOST_FOUND:
            text = script_of(seed)
            kind, missed = compared(text, asked, root)
            tried[kind] += 1
            if missed:
                tried["not listed"] += 1
                print(f"{missed} is not listed for seed {seed}:\n{text}\n", flush=True)
            seed += 1
    counts = ", ".join(f"{many:,} {kind}" for kind, many in tried.items())
    print(f"{seed - options.seed:,} scripts: {counts}")
    return 1 if tried["not listed"] else 0


if __name__ == "__main__":
    sys.exit(main())
