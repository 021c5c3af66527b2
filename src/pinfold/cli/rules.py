"""`pinfold rules list | add | remove`: the allow, ask and deny rules, and the user's own among them."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from pinfold.cli.common import add_common, place, print_json, print_table, settings_from, user_file_of
from pinfold.cli.draw import say
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.settings import Rule, Settings

DECISIONS = ("deny", "ask", "allow")
"""In the order in which they are asked."""
ABSENT = 1
"""Exit code: there was nothing to remove."""


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
    if not rules:
        say("there are no rules about commands; `pinfold status` shows what is in force")
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
    for what, text in (("COMMAND", args.command), ("--reason", getattr(args, "reason", ""))):
        _require_utf8(what, text)
    return _add(args, key) if args.action == "add" else _remove(args, key)


def _require_utf8(what: str, text: str) -> None:
    """A settings file is UTF-8, so an argument that is to stand in one must be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PolicyError("is not UTF-8", where=f"{what} `{visible(text[:80])}`") from None


def _add(args: Namespace, key: str) -> int:
    from pinfold.settings.change import add_command, find_command
    from pinfold.shell.rule_text import shape

    path, before, reason = user_file_of(args), _notes(args), getattr(args, "reason", "")
    there = find_command(path, key, args.command, shape)
    changed = add_command(path, key, args.command, shape, reason)
    notes = [note for note in _notes(args) if note not in before]
    if there is not None and reason not in ("", there.reason):
        notes.append("the reason is not kept, since the rule is there already; remove it first to change it")
    _tell(args, key, changed, "added to" if changed else "already in", notes)
    return 0


def _remove(args: Namespace, key: str) -> int:
    from pinfold.settings.change import remove_command
    from pinfold.shell.rule_text import shape

    changed = remove_command(user_file_of(args), key, args.command, shape)
    if changed:
        _tell(args, key, changed, "removed from", [])
        return 0
    _tell(args, key, changed, "is not in", list(_elsewhere(args, key)), is_missing=True)
    return ABSENT


def _tell(
    args: Namespace, key: str, changed: bool, told: str, notes: list[str], is_missing: bool = False
) -> None:
    path = user_file_of(args)
    if args.json:
        print_json({"changed": changed, "key": key, "command": args.command, "file": path, "notices": notes})
        return
    stream = sys.stderr if is_missing else sys.stdout
    print(f"`{visible(args.command)}` {told} `{key}` of {visible(path)}", file=stream)
    for note in notes:
        print(f"note: {visible(note)}", file=stream)


def _elsewhere(args: Namespace, key: str) -> Iterator[str]:
    """Where a rule stands that is not in the user's own list, or the one that may have been meant."""
    from difflib import get_close_matches

    from pinfold.settings.change import is_same_rule, list_commands
    from pinfold.shell.rule_text import shape

    try:
        settings = settings_from(args)
    except PolicyError:
        return
    lists = {f"commands.{d}": getattr(settings.commands, d) for d in DECISIONS}
    lists["sandbox.excluded_commands"] = settings.sandbox.excluded_commands
    same = [
        (n, rule)
        for n, rules in lists.items()
        for rule in rules
        if is_same_rule(rule.text, args.command, shape)
    ]
    for name, rule in same:
        where = place(rule.origin) or rule.origin.layer
        yield f"`{visible(rule.text)}` is in `{name}` of the {rule.origin.layer} settings ({where})"
    near = get_close_matches(args.command, list_commands(user_file_of(args), key), 1)
    if near and not same:
        yield f"did you mean `{visible(near[0])}`?"


def _notes(args: Namespace) -> list[str]:
    """What there is to say about the settings as they are; nothing where they cannot be read."""
    from pinfold.settings.lint import warnings

    try:
        settings: Settings = settings_from(args)
    except PolicyError:
        return []
    return [*settings.notices, *warnings(settings)]
