"""`pinfold exclude list | add | remove`: commands that run outside the fence.

Excluded is not approved: such a command still needs an allow rule or an answer.
"""

from argparse import ArgumentParser, Namespace

from pinfold.cli.common import add_common, print_json, print_table, settings_from
from pinfold.cli.draw import say
from pinfold.cli.rules import as_json, as_row, change


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    listing = verbs.add_parser(
        "list", help="every exclusion in force, and where it was written", allow_abbrev=False
    )
    add = verbs.add_parser("add", help="add an exclusion to your own settings", allow_abbrev=False)
    remove = verbs.add_parser("remove", help="remove an exclusion from your own settings", allow_abbrev=False)
    for verb in (add, remove):
        verb.add_argument("command", metavar="COMMAND", help="such as 'docker compose', in one argument")
    for verb in (listing, add, remove):
        add_common(verb)


def run(args: Namespace) -> int:
    if args.action != "list":
        return change(args, "sandbox.excluded_commands")
    rules = settings_from(args).sandbox.excluded_commands
    if args.json:
        print_json([as_json(rule) for rule in rules])
    elif rules:
        print_table([as_row(rule) for rule in rules])
    else:
        say("there are no exclusions: every command runs inside the fence")
    return 0
