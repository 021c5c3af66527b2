"""`pinfold settings show | validate | schema`: the settings in force, and what a settings file may hold."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from functools import partial

from pinfold.cli import BAD_INPUT
from pinfold.cli.arguments import add_common, filled, settings_from, sources_from
from pinfold.cli.output import (
    is_coloured,
    origin_text,
    paint,
    print_error,
    print_json,
    print_table,
    short_path,
)
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.settings import Settings
from pinfold.model.text_positions import Origin
from pinfold.settings.parse_layer import SettingsLayer

NARROWEST = 12
"""Columns that a value keeps in the table, however narrow the terminal; `--json` prints it whole."""


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="show|validate|schema")
    show = verbs.add_parser(
        "show", help="show every value in force, and where it is written", allow_abbrev=False
    )
    validate = verbs.add_parser(
        "validate", help="check one settings file, or all that are in force", allow_abbrev=False
    )
    validate.add_argument("file", nargs="?", metavar="FILE", type=filled, help="the only file to check")
    schema = verbs.add_parser("schema", help="print the JSON Schema of a settings file", allow_abbrev=False)
    for verb in (show, validate, schema):
        add_common(verb)


def run(args: Namespace) -> int:
    return {"show": _show, "validate": _validate, "schema": _schema}[args.action](args)


def _schema(_: Namespace) -> int:
    from pinfold.settings.generate_docs import json_schema

    print_json(json_schema())
    return 0


def _show(args: Namespace) -> int:
    from pinfold.settings.lint import warnings

    settings = settings_from(args)
    notices = [*settings.notices, *warnings(settings)]
    if args.json:
        print_json({"settings": rows_as_json(settings), "notices": notices})
        return 0
    print_table(fitted(rows_of(settings)))
    _print_notes(notices)
    return 0


def rows_as_json(settings: Settings) -> dict[str, object]:
    from pinfold.settings.build import effective

    rows: dict[str, object] = {}
    for name, value in effective(settings).items():
        origin = settings.origin(name)
        row = {"value": value, "layer": origin.layer, "file": origin.file, "line": origin.line}
        if isinstance(value, list):
            entries = [settings.origins.get(f"{name}[{index}]", origin) for index in range(len(value))]
            row["entries"] = [str(entry) for entry in entries]
        rows[name] = row
    return rows


def rows_of(settings: Settings) -> list[tuple[str, ...]]:
    from pinfold.settings.build import effective

    rows: list[tuple[str, ...]] = []
    for name, value in effective(settings).items():
        origin = settings.origin(name)
        rows.append((name, visible(_shown(name, value, origin)), origin.layer, origin_text(origin)))
    return rows


def _shown(name: str, value: object, origin: Origin) -> str:
    from pinfold.settings.build import limit_shown
    from pinfold.settings.defaults import LISTS
    from pinfold.settings.generate_docs import written

    if name in LISTS and origin.layer == "default":
        return f"shipped, {len(LISTS[name])} entries"
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return limit_shown(name, value)
    return written(value)


def fitted(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Cuts values, and then places, so that no line is wider than the terminal. Without a terminal nothing is
    cut."""
    from shutil import get_terminal_size

    width = get_terminal_size((0, 0)).columns
    if not width:
        return rows
    names, values, layers, places = (max(map(len, column)) for column in zip(*rows, strict=True))
    left = width - names - layers - 3 * len("  ")
    value = max(NARROWEST, min(values, left - places))
    origin_text = max(NARROWEST, left - value)
    return [(name, _cut(shown, value), layer, _cut(at, -origin_text)) for name, shown, layer, at in rows]


def _cut(text: str, width: int) -> str:
    """The text's beginning, or with a negative width its end."""
    if len(text) <= abs(width):
        return text
    return text[: width - 3] + "..." if width > 0 else "..." + text[width + 3 :]


def _print_notes(notes: Iterable[str]) -> None:
    colour = is_coloured()
    for note in notes:
        print(f"{paint('note:', 'yellow', colour)} {visible(note)}")


def _validate(args: Namespace) -> int:
    layers, errors = _read(args)
    if errors and args.json:
        print_json({"valid": False, "errors": [_error_as_json(error) for error in errors]})
    for error in errors if not args.json else ():
        print_error(error)
    if errors:
        return BAD_INPUT
    notes, files = _notes(layers), [layer.document.file for layer in layers if _is_file(layer)]
    if args.json:
        print_json({"valid": True, "files": files, "notices": notes})
        return 0
    _print_notes(notes)
    shown = ", ".join(visible(short_path(file)) for file in files)
    print(f"ok: {shown or 'no settings files; the defaults are in force'}")
    return 0


def _read(args: Namespace) -> tuple[list[SettingsLayer], list[PolicyError]]:
    """The valid layers, and one error for each of the others."""
    from pinfold.policy.hosts import require_pattern
    from pinfold.settings.build import require_sound
    from pinfold.settings.sources import LayerSource, list_sources
    from pinfold.shell.rule_text import shape

    layers: list[SettingsLayer] = []
    errors: list[PolicyError] = []
    try:
        named = [LayerSource(args.file, partial(_one_file, os.path.abspath(args.file)))] if args.file else []
        sources = named or list_sources(sources_from(args))
    except PolicyError as error:
        return [], [error]
    for source in sources:
        try:
            layer = source.read()
            if layer is not None:
                require_sound(layer, shape, require_pattern)
                _check_examples(layer)
                layers.append(layer)
        except PolicyError as error:
            errors.append(error)
    return layers, errors


def _one_file(path: str) -> SettingsLayer:
    """Reads one file, as the layer that its name implies."""
    from pinfold.settings.files import read_text
    from pinfold.settings.parse_layer import read_layer
    from pinfold.settings.toml import parse

    text = read_text(path)
    if text is None:
        raise PolicyError("this settings file does not exist", where=visible(path))
    return read_layer(parse(layer_of(path), path, text))


def _notes(layers: list[SettingsLayer]) -> list[str]:
    from pinfold.settings.build import build
    from pinfold.settings.defaults import default_layer
    from pinfold.settings.lint import warnings
    from pinfold.shell.rule_text import shape

    settings = build([*layers, default_layer()], shape)
    return [*settings.notices, *warnings(settings)]


def _is_file(layer: SettingsLayer) -> bool:
    """Whether a layer comes from a file; `file` may also be the name of a variable."""
    return os.path.isabs(layer.document.file)


def _error_as_json(error: PolicyError) -> dict[str, object]:
    from pinfold.settings.toml import PlacedError

    position: dict[str, object] = {"file": error.where}
    if isinstance(error, PlacedError):
        position = {"file": visible(error.file), "line": error.line, "column": error.column}
    else:  # an error about the whole file has its name, or its name and a line
        file, _, line = error.where.rpartition(":")
        position = {"file": file, "line": int(line)} if line.isdecimal() and file else position
    return {**position, "message": error.message, "help": error.help}


def layer_of(path: str) -> str:
    """The layer that a file of this name belongs to."""
    directory, name = os.path.split(path)
    if name == "managed.toml" or os.path.basename(directory) == "managed.d":
        return "managed"
    if os.path.basename(directory) == ".pinfold":
        return {"settings.toml": "project", "settings.local.toml": "project-local"}.get(name, "user")
    return "user"


def _check_examples(layer: SettingsLayer) -> None:
    """Raises for the first example of a `[[rule]]` that the rule does not treat as the example claims."""
    for example in layer.examples:
        matches = _matches(example.decision, example.command, example.line)
        if matches is not example.matches:
            verb = "matches" if matches else "does not match"
            message = f"the rule `{visible(example.command)}` {verb} this example"
            advice = "correct the rule, or move the example to `match` or `not_match`"
            raise example.document.error(example.path, message, advice)


def _matches(decision: str, command: str, line: str) -> bool:
    """Whether a rule matches a line: for deny and ask any part of the line, for allow every part."""
    from pinfold import shell
    from pinfold.model.settings import Rule
    from pinfold.model.text_positions import Origin
    from pinfold.policy.rule_operands import RuleMatch
    from pinfold.policy.rules import covering_rule, restrictive_match
    from pinfold.shell.rule_text import shape

    script = shell.parse(line)
    rule = Rule(command, shape(command), Origin("user"))
    if decision != "allow":
        return any(restrictive_match(rule.shape, part) is RuleMatch.YES for part in script.commands)
    covered = all(covering_rule(part, (rule,)) is not None for part in script.commands)
    return covered and bool(script.commands) and not script.unknowns and not script.problem
