"""`pinfold import AGENT`: copies an agent's own settings into the user's, and lists what it cannot copy."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pinfold.cli.arguments import filled, user_file_of
from pinfold.cli.install import agent_name
from pinfold.cli.output import print_json, short_path
from pinfold.model.escape_text import quoted, visible

if TYPE_CHECKING:
    from pinfold.integrations.imports.merge import ImportProposal
    from pinfold.integrations.imports.rules import ImportedRule

AGENTS = ("claude-code", "cursor", "codex", "gemini")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "agent",
        choices=AGENTS,
        type=agent_name,
        metavar="AGENT",
        help="the agent to import from: %(choices)s",
    )
    parser.add_argument("--write", action="store_true", help="write the changes to your settings file")
    parser.add_argument(
        "--wider", action="store_true", help="also import what would allow more here than it did there"
    )
    parser.add_argument(
        "--settings", metavar="FILE", type=filled, help="use this settings file instead of your own"
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    from pinfold.integrations.imports.merge import gather, merge
    from pinfold.settings.files import locked, read_text, write_text
    from pinfold.settings.parse_layer import read_layer
    from pinfold.settings.toml import parse

    path = user_file_of(args)
    files, findings = gather(args.agent, os.environ)
    # Another process that changes the file waits for the lock, so that no change is lost.
    with locked(path) if args.write and files else nullcontext():
        before = read_text(path) or ""
        read_layer(parse("user", path, before))  # raises for an invalid file, which is not edited
        proposal = merge(before, findings, take_wider=args.wider)
        read_layer(parse("user", path, proposal.text))
        if args.write and proposal.text != before:
            write_text(path, proposal.text)
    _print_proposal(args, path, before, files, proposal)
    return 0


def _print_proposal(
    args: Namespace, path: str, before: str, files: tuple[str, ...], proposal: "ImportProposal"
) -> None:
    from pinfold.cli.install import diff

    changes = diff(before, proposal.text, path if args.json else short_path(path))
    if args.json:
        print_json(
            {
                "read": files,
                "file": path,
                "written": bool(args.write and changes),
                "diff": changes,
                "taken": [each._asdict() for each in proposal.taken],
                "there": [each._asdict() for each in proposal.there],
                "wider": [each._asdict() for each in proposal.wider],
                "left": [each._asdict() for each in proposal.left],
            }
        )
        return
    if not files:
        print(f"no settings of {args.agent} were found")
        return
    print(changes, end="")
    _print_rules(
        "left out, since it would allow more here than it did there (--wider imports it)", proposal.wider
    )
    _print_rules("allows less here", [each for each in proposal.taken if each.fit == "narrower"])
    _print_rules("has no equivalent here", proposal.left)
    _print_rules(
        "not needed, since it is the default here",
        [each for each in proposal.there if each.fit == "needless"],
    )
    if not changes:
        print("there is nothing to import")
    elif args.write:
        print(f"changed {visible(short_path(path))}")
    else:
        print(f"nothing is changed yet; to write this: {_write_command(args)}")


def _write_command(args: Namespace) -> str:
    """The command that writes the proposed changes."""
    wider = ["--wider"] if args.wider else []
    settings = ["--settings", args.settings] if args.settings else []
    words = ["pinfold", "import", args.agent, "--write", *wider, *settings]
    return visible(" ".join(map(quoted, words)))


def _print_rules(title: str, findings: "Sequence[ImportedRule]") -> None:
    if not findings:
        return
    print(f"\n{title}:")
    for each in findings:
        print(f"  {visible(each.text)}  ({visible(short_path(each.source))}): {visible(each.why)}")
