"""`pinfold install AGENT`: puts our hooks into an agent's configuration; `uninstall` takes them out again."""

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pinfold.integrations.hooks import AGENTS

if TYPE_CHECKING:
    from pinfold.integrations.install.plan import Plan


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "agent", choices=tuple(AGENTS), metavar="AGENT", help="whose configuration to change: %(choices)s"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    from pinfold.integrations.install.apply import apply_install
    from pinfold.integrations.install.plan import plan_install

    plan = plan_install(args.agent, os.environ)
    if not args.dry_run:
        apply_install(args.agent, plan, os.environ)
    tell(args, plan, "installed", "is installed already")
    return 0


def tell(args: Namespace, plan: "Plan", done: str, nothing: str) -> None:
    """What was changed, or would be."""
    from pinfold.cli.common import print_json, short
    from pinfold.model.escape_text import visible

    if args.json:
        files = [
            {"path": each.path, "diff": diff(each.before, each.after, each.path)} for each in plan.changes
        ]
        print_json({"changed": files, "dryRun": args.dry_run, "notes": plan.notes})
        return
    for each in plan.changes:
        if args.dry_run:
            print(diff(each.before, each.after, short(each.path)), end="")
        else:
            print(f"{'removed' if each.after is None else 'changed'} {visible(short(each.path))}")
    if not plan.changes:
        print(f"{args.agent} {nothing}")
    elif not args.dry_run:
        print(f"{done}: start {args.agent} anew")
    for note in plan.notes:
        print(f"note: {visible(note)}")


def diff(before: str | None, after: str | None, path: str) -> str:
    from difflib import unified_diff

    old, new = (before or "").splitlines(keepends=True), (after or "").splitlines(keepends=True)
    lines = unified_diff(
        old,
        new,
        "/dev/null" if before is None else path,
        "/dev/null" if after is None else path,
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
