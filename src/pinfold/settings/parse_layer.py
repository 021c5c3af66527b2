"""One document becomes one layer: every key known, every value checked and in canonical form.

Decides what a single file may say, never how files combine (`merge`) or which count (`sources`).
An unknown key is an error: a misspelt `deny` that is silently dropped would be a hole.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import first_invisible, visible
from pinfold.model.text_positions import Origin
from pinfold.settings.keys import (
    BY_NAME,
    DECISIONS,
    PROJECT_LAYERS,
    RULE_KEYS,
    SECTIONS,
    Direction,
    Key,
    ValueKind,
    WrittenBy,
)
from pinfold.settings.toml import Document
from pinfold.settings.values import BadValue, check_entries, check_scalar

if TYPE_CHECKING:
    from pinfold.settings.toml_positions import Path

MOST_OF_A_PROJECT = 1_000
"""Entries of all lists together: each one in a project's file makes every answer slower."""


class WrittenValue(Struct, frozen=True):
    """One scalar, or one entry of a list or table, and where it was written."""

    value: object
    document: Document
    path: Path
    reason: str = ""

    @property
    def origin(self) -> Origin:
        return self.document.origin(self.path)

    @property
    def layer(self) -> str:
        return self.document.layer


class RuleExample(Struct, frozen=True):
    """A line that the author of a `[[rule]]` says must, or must not, match."""

    decision: str
    command: str
    line: str
    matches: bool
    document: Document
    path: tuple[str | int, ...]


class SettingsLayer(Struct, frozen=True):
    document: Document
    scalars: dict[str, WrittenValue]
    lists: dict[str, list[WrittenValue]]
    """Present, though perhaps empty, for each list key the document sets."""
    examples: list[RuleExample]
    notices: list[str]
    seen: set[tuple[str, str]] = set()
    """Each list key and the spelling of what was added to it: a list may be as long as a file."""


def read_layer(document: Document) -> SettingsLayer:
    """The layer in a document, or a `PolicyError` at the first invalid thing."""
    layer = SettingsLayer(document, {}, {}, [], [])
    for name, value in document.data.items():
        if name == "rule":
            _read_rules(layer, value)
        elif name in BY_NAME:
            _read_key(layer, BY_NAME[name], value)
        elif name in SECTIONS and name:
            _read_section(layer, name, value)
        elif name != "$schema":
            raise _unknown(document, (name,), [*SECTIONS, *(key.name for key in SECTIONS[""]), "rule"])
    return layer


def _read_section(layer: SettingsLayer, section: str, values: object) -> None:
    if not isinstance(values, dict):
        raise layer.document.error((section,), f"`{section}` must be a table", f"[{section}]", key=True)
    for name, value in values.items():
        key = BY_NAME.get(f"{section}.{name}")
        if key is None:
            names = [known.path[-1] for known in SECTIONS[section]]
            raise _unknown(layer.document, (section, name), names)
        _read_key(layer, key, value)


def _read_key(layer: SettingsLayer, key: Key, value: object) -> None:
    document, path = layer.document, key.path
    if key.written_by is WrittenBy.MANAGED and document.layer not in ("managed", "default", "session"):
        raise document.error(path, f"`{key.name}` may be set only in a managed file", key=True)
    try:
        if key.is_scalar:
            layer.scalars[key.name] = WrittenValue(check_scalar(key, value), document, path)
            return
        entries = layer.lists.setdefault(key.name, [])
        for step, checked in check_entries(key, value):
            _add(layer, entries, key, _entry(layer, key, checked, (*path, *step)))
    except BadValue as bad:
        raise document.error((*path, *bad.path), bad.message, bad.help) from None


def _entry(layer: SettingsLayer, key: Key, value: object, path: Path, reason: str = "") -> WrittenValue:
    if isinstance(value, str):
        _look_for_invisible(layer, key, value, path)
        _look_for_everything(layer, key, value, path)
        value = _anchored(layer.document, key, value)
    return WrittenValue(value, layer.document, path, reason)


def _add(layer: SettingsLayer, entries: list[WrittenValue], key: Key, entry: WrittenValue) -> None:
    spelled = (key.name, repr(entry.value))
    if spelled in layer.seen:
        layer.notices.append(
            f"{shown_origin(entry.origin)}: `{visible(str(entry.value))}` is listed twice in `{key.name}`"
        )
    layer.seen.add(spelled)
    if layer.document.layer in PROJECT_LAYERS and len(layer.seen) > MOST_OF_A_PROJECT:
        message = f"a project's file may have at most {MOST_OF_A_PROJECT:,} entries"
        raise layer.document.error(entry.path, message, "use fewer rules, or put them into your own settings")
    entries.append(entry)


def _look_for_invisible(layer: SettingsLayer, key: Key, text: str, path: Path) -> None:
    """Raises for a permissive entry that does not read as what it is; only warns for another one."""
    found = first_invisible(text)
    if not found:
        return
    message = f"`{visible(text)}` in `{key.name}` contains an invisible character, {found}"
    if key.narrows is Direction.GRANT and key.kind in (ValueKind.RULES, ValueKind.HOSTS):
        raise layer.document.error(path, message, "remove the character, or type the entry again")
    layer.notices.append(f"{shown_origin(layer.document.origin(path))}: {message}")


def _look_for_everything(layer: SettingsLayer, key: Key, text: str, path: Path) -> None:
    """Every host at once is `network.access`, which the administrator can cap."""
    if key.narrows is Direction.GRANT and key.kind is ValueKind.HOSTS and text.partition(":")[0] == "*":
        message = f"`{visible(text[:60])}` in `{key.name}` would allow every host"
        raise layer.document.error(path, message, 'name the hosts, or set `network.access` to "all"')


def _anchored(document: Document, key: Key, text: str) -> str:
    """A project's own restriction on a relative path is about that project, not about other roots."""
    if document.layer not in PROJECT_LAYERS or not document.root or key.kind is not ValueKind.PATHS:
        return text
    is_name = key.name in ("filesystem.hide", "filesystem.protect") and "/" not in text.rstrip("/")
    return text if is_name or text.startswith(("/", "~")) else os.path.join(document.root, text)


def _read_rules(layer: SettingsLayer, tables: object) -> None:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise layer.document.error(("rule",), "`rule` must be written as [[rule]] tables", key=True)
    for index, table in enumerate(tables):
        _read_rule(layer, table, ("rule", index))


def _read_rule(layer: SettingsLayer, table: dict[str, object], path: Path) -> None:
    document = layer.document
    for name in table:
        if name not in RULE_KEYS:
            raise _unknown(document, (*path, name), list(RULE_KEYS))
    for name in ("decision", "command"):
        if name not in table:
            raise document.error(path, f"a rule needs `{name}`", RULE_KEYS[name], key=True)
    for name in ("decision", "command", "reason"):
        if not isinstance(table.get(name, ""), str):
            raise document.error((*path, name), f"`{name}` of a rule must be a string", RULE_KEYS[name])
    decision, command = str(table["decision"]), str(table["command"])
    if decision not in DECISIONS:
        message = f"`decision` cannot be `{visible(decision[:60])}`"
        raise document.error((*path, "decision"), message, f"one of {', '.join(DECISIONS)}")
    if not command.strip():
        raise document.error((*path, "command"), "`command` of a rule is empty")
    key = BY_NAME[f"commands.{decision}"]
    entry = _entry(layer, key, command, (*path, "command"), str(table.get("reason", "")))
    _add(layer, layer.lists.setdefault(key.name, []), key, entry)
    for name in ("match", "not_match"):
        _read_examples(layer, decision, command, table.get(name, []), (*path, name))


def _read_examples(layer: SettingsLayer, decision: str, command: str, lines: object, path: Path) -> None:
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise layer.document.error(path, f"`{path[-1]}` of a rule must be a list of command lines")
    for index, line in enumerate(lines):
        matches = path[-1] == "match"
        layer.examples.append(RuleExample(decision, command, line, matches, layer.document, (*path, index)))


def _unknown(document: Document, path: Path, known: list[str]) -> PolicyError:
    """An unknown key, with the nearest known one; else where a key of this name would belong."""
    name = str(path[-1])
    import difflib  # only when something is wrong: it costs start-up

    near = difflib.get_close_matches(name, [k for k in known if k], 1, 0.6)
    elsewhere = [key.name for key in BY_NAME.values() if key.path[-1] == name]
    meant = [*near, *elsewhere]
    suggestion = f"did you mean `{meant[0]}`?" if meant else ""
    shown = ".".join(map(str, path))[:80]
    return document.error(path, f"unknown key `{visible(shown)}`", suggestion, key=True)


def shown_origin(origin: Origin) -> str:
    """An origin for a person's terminal."""
    return visible(str(origin))


def overlaid(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Values of one layer with others over them, key by key within a section."""
    both = dict(old)
    for name, value in new.items():
        before = both.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            both[name] = {**before, **value}
        else:
            both[name] = value
    return both
