"""`pinfold selftest`: attacks the sandbox on this machine, in a temporary workspace, and shows what it
stopped."""

import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pinfold.cli.output import print_json
from pinfold.model.escape_text import visible

if TYPE_CHECKING:
    from pinfold.diagnose.selftest.run import AttackResult

HELD, GOT_THROUGH = 0, 1
SHOWN = {"held": ("stopped", "green"), "through": ("got through", "red"), "untried": ("not tried", "yellow")}


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    findings = _attack(quiet=args.json)
    through = [finding for finding in findings if finding.is_through]
    if args.json:
        counts = Counter(finding.outcome for finding in findings)
        print_json({"held": not through, "counts": counts, "attacks": findings})
    else:
        _draw(findings)
    return GOT_THROUGH if through else HELD


def _attack(*, quiet: bool) -> list["AttackResult"]:
    from pinfold.diagnose.selftest import HOW_MANY, selftest

    # A progress line on a terminal, which is erased before the table.
    if quiet or not os.isatty(2):
        return list(selftest(os.environ))
    from rich.progress import track

    from pinfold.cli.output import make_console

    with_progress: Iterable[AttackResult] = track(
        selftest(os.environ), "attacking", total=HOW_MANY, console=make_console(stderr=True), transient=True
    )
    return list(with_progress)


def _draw(findings: list["AttackResult"]) -> None:
    from rich.text import Text

    from pinfold.cli.output import make_console, make_table, print_rich_table

    console = make_console()
    drawn = make_table("", "attack")
    for claim in dict.fromkeys(finding.claim for finding in findings):
        drawn.add_row("", Text(f"\n{claim}", style="bold"))
        for finding in findings:
            if finding.claim == claim:
                word, colour = SHOWN[finding.outcome]
                told = finding.tries if finding.is_held else f"{finding.tries}: {finding.detail}"
                drawn.add_row(Text(word, style=colour), visible(told))
    print_rich_table(console, drawn)
    counts = Counter(finding.outcome for finding in findings)
    console.print()
    # Repeated at the end, where it is seen without scrolling.
    for finding in findings:
        if finding.is_through:
            console.print(
                Text.assemble(("got through: ", "red"), f"{visible(finding.tries)} ({finding.name})")
            )
    console.print(
        f"The sandbox stopped {counts['held']} of {len(findings)} attacks; {counts['through']} got through,"
        f" {counts['untried']} could not be tried."
    )
