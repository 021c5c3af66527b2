"""`pinfold import AGENT`: takes over what an agent's own settings say, and tells what it cannot."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pinfold.cli.arguments import filled, user_file_of
from pinfold.cli.output import print_json, short_path
from pinfold.model.escape_text import quoted, visible

if TYPE_CHECKING:
    from pinfold.integrations.imports.merge import ImportProposal
    from pinfold.integrations.imports.rules import ImportedRule

AGENTS = ("claude", "cursor", "codex", "gemini")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "agent", choices=AGENTS, metavar="AGENT", help="whose settings to take over: %(choices)s"
    )
    parser.add_argument("--write", action="store_true", help="accept it: change your settings file")
    parser.add_argument(
        "--wider", action="store_true", help="also take what lets more through here than it did there"
    )
    parser.add_argument(
        "--settings", metavar="FILE", type=filled, help="a settings file in place of the user's own"
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    from pinfold.integrations.imports.merge import gather, merge
    from pinfold.settings.files import locked, read_text, write_text
    from pinfold.settings.parse_layer import read_layer
    from pinfold.settings.toml import parse

    path = user_file_of(args)
    files, findings = gather(args.agent, os.environ)
    # Whoever changes the file meanwhile waits, and nothing of theirs is lost.
    with locked(path) if args.write and files else nullcontext():
        before = read_text(path) or ""
        read_layer(parse("user", path, before))  # a broken file is not edited
        merged = merge(before, findings, take_wider=args.wider)
        read_layer(parse("user", path, merged.text))
        if args.write and merged.text != before:
            write_text(path, merged.text)
    _tell(args, path, before, files, merged)
    return 0


def _tell(args: Namespace, path: str, before: str, files: tuple[str, ...], merged: "ImportProposal") -> None:
    from pinfold.cli.install import diff

    changes = diff(before, merged.text, path if args.json else short_path(path))
    if args.json:
        print_json(
            {
                "read": files,
                "file": path,
                "written": bool(args.write and changes),
                "diff": changes,
                "taken": [each._asdict() for each in merged.taken],
                "there": [each._asdict() for each in merged.there],
                "wider": [each._asdict() for each in merged.wider],
                "left": [each._asdict() for each in merged.left],
            }
        )
        return
    if not files:
        print(f"{args.agent} has no settings of yours here")
        return
    print(changes, end="")
    _list("lets more through here than it did there, so it is left out (--wider takes it)", merged.wider)
    _list("lets less through here", [each for each in merged.taken if each.fit == "narrower"])
    _list("has no equivalent", merged.left)
    _list("is so here without it", [each for each in merged.there if each.fit == "needless"])
    if not changes:
        print("there is nothing to take over")
    elif args.write:
        print(f"changed {visible(short_path(path))}")
    else:
        print(f"nothing is changed yet: `{_accepting(args)}` accepts this")


def _accepting(args: Namespace) -> str:
    """The same once more, to be carried out."""
    wider = ["--wider"] if args.wider else []
    settings = ["--settings", args.settings] if args.settings else []
    words = ["pinfold", "import", args.agent, "--write", *wider, *settings]
    return visible(" ".join(map(quoted, words)))


def _list(title: str, findings: "Sequence[ImportedRule]") -> None:
    if not findings:
        return
    print(f"\n{title}:")
    for each in findings:
        print(f"  {visible(each.text)}  ({visible(short_path(each.source))}): {visible(each.why)}")
