"""`pinfold rules list | add | remove`: the allow, ask and deny rules, and the user's own among them."""

from argparse import ArgumentParser, Namespace

from pinfold.cli.common import add_common, place, print_json, print_table, settings_from, user_file_of
from pinfold.model.errors import PolicyError
from pinfold.model.settings import Rule, Settings
from pinfold.model.visible import visible

HELP = "list, add or remove rules about commands"
DECISIONS = ("deny", "ask", "allow")
"""In the order in which they are asked."""


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    listing = verbs.add_parser(
        "list", help="every rule in force, and where it was written", allow_abbrev=False
    )
    add = verbs.add_parser("add", help="add a rule to your own settings", allow_abbrev=False)
    remove = verbs.add_parser("remove", help="remove a rule from your own settings", allow_abbrev=False)
    for verb in (add, remove):
        verb.add_argument("decision", choices=DECISIONS)
        verb.add_argument("command", metavar="COMMAND", help="such as 'git push', in one argument")
    add.add_argument("--reason", default="", help="shown when the rule matches")
    for verb in (listing, add, remove):
        add_common(verb)


def run(args: Namespace) -> int:
    if args.action == "list":
        return _list(args)
    return change(args, f"commands.{args.decision}")


def _list(args: Namespace) -> int:
    settings = settings_from(args)
    rules = [(d, rule) for d in DECISIONS for rule in getattr(settings.commands, d)]
    if args.json:
        print_json([{"decision": d, **as_json(rule)} for d, rule in rules])
        return 0
    print_table([(d, *as_row(rule)) for d, rule in rules])
    return 0


def as_json(rule: Rule) -> dict[str, object]:
    origin = rule.origin
    return {
        "command": rule.text,
        "reason": rule.reason,
        "layer": origin.layer,
        "file": origin.file,
        "line": origin.line,
    }


def as_row(rule: Rule) -> tuple[str, ...]:
    reason = f"  # {visible(rule.reason)}" if rule.reason else ""
    return (
        visible(rule.text),
        rule.origin.layer,
        place(rule.origin) + reason,
    )


def change(args: Namespace, key: str) -> int:
    """Adds or removes one entry of the user's file, and says what that changed."""
    from pinfold.settings.change import add_command, remove_command
    from pinfold.shell.shape import shape

    path, before = user_file_of(args), _notes(args)
    if args.action == "add":
        changed = add_command(path, key, args.command, shape, getattr(args, "reason", ""))
        told = "added to" if changed else "already in"
    else:
        changed = remove_command(path, key, args.command)
        told = "removed from" if changed else "not in"
    notes = [note for note in _notes(args) if note not in before] if args.action == "add" else []
    if args.json:
        print_json({"changed": changed, "key": key, "command": args.command, "file": path, "notices": notes})
        return 0
    print(f"`{visible(args.command)}` {told} `{key}` of {visible(path)}")
    for note in notes:
        print(f"note: {visible(note)}")
    return 0


def _notes(args: Namespace) -> list[str]:
    """What there is to say about the settings as they are; nothing where they cannot be read."""
    from pinfold.settings.review import warnings

    try:
        settings: Settings = settings_from(args)
    except PolicyError:
        return []
    return [*settings.notices, *warnings(settings)]
