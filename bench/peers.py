"""The same work bare, in pinfold and in other sandboxes, taking turns in one run; prints ratios to bare.

Run: `make bench`, or `.venv/bin/python -m bench.peers --help`. `make peers` installs the others into
$PINFOLD_PEERS (~/.cache/pinfold-peers); those on PATH count too. A sandbox that is missing, or that fails
to confine a command when tried, is named with the reason and not timed.

Turns keep the ratios honest where the machine changes its pace; their order is drawn anew for each round.
It works in $TMPDIR, or else in the home directory, since sandboxes replace /tmp.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing

from bench.contenders import BARE, CONTENDERS, Contender, ContenderError, require_sandbox_type
from bench.contest import Contest, Found, Progress, ready
from bench.ground import Ground
from bench.memory import Crowd, crowd
from bench.report import Report, as_data, as_page, as_picture, as_text
from bench.works import PENS, WORKS

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs")
CROWD = "pens"
PATIENCE, HURRY = 20.0, 2.0
"""Seconds of turns after which a contender leaves a work to the faster ones."""


def look_for(contenders: Sequence[Contender]) -> tuple[Found, dict[str, str]]:
    """Before HOME is another: the others may be installed in it."""
    found: Found = {}
    absent: dict[str, str] = {}
    for contender in contenders:
        try:
            found[contender.name] = contender, contender.find()
        except ContenderError as error:
            absent[contender.name] = str(error)
    return found, absent


def tried(found: Found, ground: Ground, progress: Progress) -> tuple[Found, dict[str, str]]:
    """Who fences, and why the others do not."""
    fit: Found = {}
    failed: dict[str, str] = {}
    for name, (contender, program) in found.items():
        progress.tell(f"trying {name}")
        try:
            with ExitStack() as stack:
                place, runner, thread = ready(stack, contender, program, ground)
                if contender is not BARE:
                    thread.submit(require_sandbox_type, runner, place).result()
            fit[name] = contender, program
        except (ContenderError, OSError) as error:
            failed[name] = f"failed: {error}"
    return fit, failed


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    works, contenders = [work.name for work in WORKS] + [CROWD], [one.name for one in CONTENDERS]
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="turns of each in a work of middle length (20)")
    parser.add_argument("--quick", action="store_true", help="3 rounds, and a tenth of the files")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=works + contenders, default=[],
        help=f"works ({', '.join(works)}) or contenders ({', '.join(contenders)}); bare is always there",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="every figure, into a file")
    parser.add_argument("--docs", action="store_true", help="write docs/peers.md and docs/peers.svg")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (3 if options.quick else 20)
    options.scale, options.patience = (0.1, HURRY) if options.quick else (1.0, PATIENCE)
    options.works = [name for name in works if name in options.only] or works
    wanted = [name for name in contenders if name in options.only] or contenders
    options.contenders = [one for one in CONTENDERS if one is BARE or one.name in wanted]
    return options


def forget_settings(home: str) -> None:
    """The user's own settings do not count. Python may keep what it compiled, or it would start late."""
    os.environ["HOME"] = home
    ours = ("XDG_", "PINFOLD_", "CODEX_", "CLAUDE_", "GIT_", "PYTHONDONT", "PYTHONUNBUFFERED")
    for name in [name for name in os.environ if name.startswith(ours)]:
        del os.environ[name]


def bench(options: argparse.Namespace) -> Report:
    load = os.getloadavg()[0]
    found, absent = look_for(options.contenders)
    with closing(Ground()) as ground:
        forget_settings(ground.home)
        progress = Progress()
        fit, failed = tried(found, ground, progress)
        outcomes = [
            Contest(work, fit, ground, progress, options.scale, options.patience).run(options.rounds)
            for work in WORKS
            if work.name in options.works
        ]
        many: Crowd | None = None
        if CROWD in options.works and "pinfold" in fit:
            progress.tell("pens at once")
            with ground.place() as place:
                many = crowd(place, max(1, int(PENS * options.scale)))
        versions = {name: contender.version(program) for name, (contender, program) in fit.items()}
        return Report(outcomes, versions, {**absent, **failed}, many, ground.kind, options.scale, load)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that places are given back
    report = bench(options)
    print(as_text(report))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(as_data(report), file, indent=1)
    if options.docs:
        for name, text in (("peers.md", as_page(report)), ("peers.svg", as_picture(report))):
            with open(os.path.join(DOCS, name), "w") as file:
                file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
