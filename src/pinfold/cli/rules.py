"""`pinfold rules` and `pinfold exclude`, each with list, add and remove: they change the user's settings
file.

Rules allow commands, ask about them or deny them. Exclusions are commands that run outside the sandbox.
Excluded is not approved: such a command still needs an allow rule or an answer.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from pinfold.cli.arguments import add_common, settings_from, user_file_of
from pinfold.cli.output import origin_text, print_json, print_sentence, print_table
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.settings import Rule, Settings

EXCLUDED = "sandbox.excluded_commands"
DECISIONS = ("deny", "ask", "allow")
"""In the order in which they are looked up."""
ABSENT = 1
"""Exit code of `remove` without an entry to remove."""


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    listing = verbs.add_parser(
        "list", help="show every rule in force, and where it is written", allow_abbrev=False
    )
    add = verbs.add_parser("add", help="add a rule to your own settings", allow_abbrev=False)
    remove = verbs.add_parser("remove", help="remove a rule from your own settings", allow_abbrev=False)
    for verb in (add, remove):
        verb.add_argument("decision", choices=DECISIONS)
        verb.add_argument("command", metavar="COMMAND", help="such as 'git push', in one argument")
    add.add_argument("--reason", default="", help="why; shown when the rule matches")
    for verb in (listing, add, remove):
        add_common(verb)


def configure_exclude(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    listing = verbs.add_parser(
        "list", help="show every exclusion in force, and where it is written", allow_abbrev=False
    )
    add = verbs.add_parser("add", help="add an exclusion to your own settings", allow_abbrev=False)
    remove = verbs.add_parser("remove", help="remove an exclusion from your own settings", allow_abbrev=False)
    for verb in (add, remove):
        verb.add_argument("command", metavar="COMMAND", help="such as 'docker compose', in one argument")
    for verb in (listing, add, remove):
        add_common(verb)


def run(args: Namespace) -> int:
    if args.action == "list":
        return _list(args)
    return _change(args, f"commands.{args.decision}")


def exclude(args: Namespace) -> int:
    if args.action != "list":
        return _change(args, EXCLUDED)
    rules = settings_from(args).sandbox.excluded_commands
    if args.json:
        print_json([_as_json(rule) for rule in rules])
    elif rules:
        print_table([_as_row(rule) for rule in rules])
    else:
        print_sentence("there are no exclusions: every command runs in the sandbox")
    return 0


def _list(args: Namespace) -> int:
    settings = settings_from(args)
    rules = [(d, rule) for d in DECISIONS for rule in getattr(settings.commands, d)]
    if args.json:
        print_json([{"decision": d, **_as_json(rule)} for d, rule in rules])
        return 0
    print_table([(d, *_as_row(rule)) for d, rule in rules])
    if not rules:
        print_sentence("there are no rules about commands; `pinfold status` shows what is in force")
    return 0


def _as_json(rule: Rule) -> dict[str, object]:
    origin = rule.origin
    return {
        "command": rule.text,
        "reason": rule.reason,
        "layer": origin.layer,
        "file": origin.file,
        "line": origin.line,
    }


def _as_row(rule: Rule) -> tuple[str, ...]:
    reason = f"  # {visible(rule.reason)}" if rule.reason else ""
    return (
        visible(rule.text),
        rule.origin.layer,
        origin_text(rule.origin) + reason,
    )


def _change(args: Namespace, key: str) -> int:
    """Adds or removes one entry of the user's file, and prints the change."""
    for what, text in (("COMMAND", args.command), ("--reason", getattr(args, "reason", ""))):
        _require_utf8(what, text)
    return _add(args, key) if args.action == "add" else _remove(args, key)


def _require_utf8(what: str, text: str) -> None:
    """A settings file is UTF-8, so an argument that is written to one must be."""
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
        notes.append("the rule exists already, and keeps its reason; to change that, remove the rule first")
    _print_change(args, key, changed, "added to" if changed else "already in", notes)
    return 0


def _remove(args: Namespace, key: str) -> int:
    from pinfold.settings.change import remove_command
    from pinfold.shell.rule_text import shape

    changed = remove_command(user_file_of(args), key, args.command, shape)
    if changed:
        _print_change(args, key, changed, "removed from", [])
        return 0
    _print_change(args, key, changed, "is not in", list(_elsewhere(args, key)), is_missing=True)
    return ABSENT


def _print_change(
    args: Namespace, key: str, changed: bool, verb: str, notes: list[str], is_missing: bool = False
) -> None:
    path = user_file_of(args)
    if args.json:
        print_json({"changed": changed, "key": key, "command": args.command, "file": path, "notices": notes})
        return
    stream = sys.stderr if is_missing else sys.stdout
    print(f"`{visible(args.command)}` {verb} `{key}` of {visible(path)}", file=stream)
    for note in notes:
        print(f"note: {visible(note)}", file=stream)


def _elsewhere(args: Namespace, key: str) -> Iterator[str]:
    """Where a rule is written that is not in the user's list, or the rule that may have been meant."""
    from difflib import get_close_matches

    from pinfold.settings.change import is_same_rule, list_commands
    from pinfold.shell.rule_text import shape

    try:
        settings = settings_from(args)
    except PolicyError:
        return
    lists = {f"commands.{d}": getattr(settings.commands, d) for d in DECISIONS}
    lists[EXCLUDED] = settings.sandbox.excluded_commands
    same = [
        (n, rule)
        for n, rules in lists.items()
        for rule in rules
        if is_same_rule(rule.text, args.command, shape)
    ]
    for name, rule in same:
        where = origin_text(rule.origin) or rule.origin.layer
        yield f"`{visible(rule.text)}` is in `{name}` of the {rule.origin.layer} settings ({where})"
    near = get_close_matches(args.command, list_commands(user_file_of(args), key), 1)
    if near and not same:
        yield f"did you mean `{visible(near[0])}`?"


def _notes(args: Namespace) -> list[str]:
    """Notices and warnings about the settings; none where the settings cannot be read."""
    from pinfold.settings.lint import warnings

    try:
        settings: Settings = settings_from(args)
    except PolicyError:
        return []
    return [*settings.notices, *warnings(settings)]
