"""Adds and removes entries of a settings file without touching anything else in it.

A person's comments, order and spacing are theirs: every edit is one insertion or one deletion at a place that
`locate` found, and its result is parsed and compared before it is believed. Pure; `change` reads and stores.
"""

import tomllib
from typing import Any

from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import is_invisible
from pinfold.settings.toml_positions import Path, TomlPositions, locate

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str) -> str:
    """A TOML text; what cannot be seen is escaped."""
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if not is_invisible(character) or character == " ":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def add_entry(text: str, section: str, name: str, entry: str) -> str:
    """The text with `entry` at the end of the list `section.name`; unchanged where it is there already."""
    data = tomllib.loads(text)
    entries = data.get(section, {}).get(name)
    if entries is not None and entry in entries:
        return text
    places = locate(text)
    path: Path = (section, name)
    if entries is None:
        changed = _with_key(text, places, section, f"{name} = [{quoted(entry)}]")
    else:
        changed = _with_element(text, places, path, len(entries), quoted(entry))
    return _proven(changed, data, section, name, [*(entries or []), entry])


def remove_entry(text: str, section: str, name: str, entry: str) -> str:
    """The text without `entry` in the list `section.name`, unchanged where it is not there."""
    data = tomllib.loads(text)
    entries = data.get(section, {}).get(name, [])
    wanted = [other for other in entries if other != entry]
    while entry in entries:
        text = _without_element(text, locate(text), (section, name), entries.index(entry), len(entries))
        entries = tomllib.loads(text)[section][name]
    return _proven(text, data, section, name, wanted) if section in data and name in data[section] else text


def set_value(text: str, section: str, name: str, value: str) -> str:
    """The text with the scalar `section.name` as `value`, which is written in TOML."""
    data, places = tomllib.loads(text), locate(text)
    place = places.values.get((section, name))
    if place is None:
        changed = _with_key(text, places, section, f"{name} = {value}")
    else:
        changed = text[: place.start] + value + text[place.end :]
    return _proven(changed, data, section, name, tomllib.loads(f"x = {value}")["x"])


def add_rule(text: str, decision: str, command: str, reason: str) -> str:
    """The text with a `[[rule]]` table at its end; unchanged where the same rule is there already."""
    data = tomllib.loads(text)
    rule = {"decision": decision, "command": command, "reason": reason}
    if any(rule.items() <= other.items() for other in data.get("rule", [])):
        return text
    lines = "\n".join(f"{key} = {quoted(value)}" for key, value in rule.items())
    changed = _closed(text) + ("\n" if text.strip() else "") + f"[[rule]]\n{lines}\n"
    if tomllib.loads(changed) != {**data, "rule": [*data.get("rule", []), rule]}:
        raise _cannot()
    return changed


def remove_rules(text: str, decision: str, command: str) -> str:
    """The text without the `[[rule]]` tables of this decision and command."""
    while True:
        data = tomllib.loads(text)
        rules = data.get("rule", [])
        found = [
            index
            for index, rule in enumerate(rules)
            if rule.get("decision") == decision and rule.get("command") == command
        ]
        if not found:
            return text
        text = _without_table(text, locate(text), ("rule", found[0]))
        left = [rule for index, rule in enumerate(rules) if index != found[0]]
        if tomllib.loads(text).get("rule", []) != left:
            raise _cannot()


def _with_key(text: str, places: TomlPositions, section: str, line: str) -> str:
    """A new key at the end of its section, or a new section at the end of the text."""
    if (section,) in places.ends:
        at = _line_end(text, places.ends[(section,)])
        return text[:at] + f"\n{line}" + text[at:]
    inline = places.values.get((section,))
    if inline is not None:  # commands = {allow = []}
        comma = "" if text[inline.start + 1 : inline.end - 1].strip() == "" else ", "
        return text[: inline.start + 1] + line + comma + text[inline.start + 1 :]
    dotted = [place for path, place in places.values.items() if path[0] == section and len(path) == 2]
    if dotted:  # commands.deny = [] at the top: the section cannot be opened again by a header
        at = _line_end(text, max(place.end for place in dotted))
        return text[:at] + f"\n{section}.{line}" + text[at:]
    return _closed(text) + ("\n" if text.strip() else "") + f"[{section}]\n{line}\n"


def _with_element(text: str, places: TomlPositions, path: Path, count: int, element: str) -> str:
    whole = places.values[path]
    if count == 0:
        return text[: whole.start + 1] + element + text[whole.start + 1 :]
    last = places.values[(*path, count - 1)]
    head, tail = text[: last.end], text[last.end : whole.end]
    between = _before(text, places, path, count - 1)
    comma = _comma(tail)
    if comma is None:
        return f"{head},{between}{element}{text[last.end :]}"
    # A trailing comma stays: the new element goes behind it, and behind a comment on that line.
    at = last.end + comma + 1
    rest = text[at : _line_end(text, at)].lstrip()
    if "\n" in between and (not rest or rest.startswith("#")):
        at = _line_end(text, at)
    return f"{text[:at]}{between}{element},{text[at:]}"


def _before(text: str, places: TomlPositions, path: Path, index: int) -> str:
    """The spacing that this list puts before an element: its own indented line, or a space."""
    place = places.values[(*path, index)]
    start = text.rfind("\n", 0, place.start) + 1
    indent = text[start : place.start]
    if start and not indent.strip() and start > places.values[path].start:
        return ("\r\n" if text[start - 2 : start] == "\r\n" else "\n") + indent
    return " "


def _without_element(text: str, places: TomlPositions, path: Path, index: int, count: int) -> str:
    place = places.values[(*path, index)]
    start, end = place.start, place.end
    comma = _comma(text[end : places.values[path].end])
    if comma is not None:
        end += comma + 1
    elif index:  # the last one: the comma before it goes with it, and comments stay
        before = places.values[(*path, index - 1)]
        gap = text[before.end : start]
        at = before.end + (_comma(gap) or 0)
        return text[:at] + text[at + 1 : _trimmed(text, start)] + text[end:]
    line = text.rfind("\n", 0, start) + 1
    after = text.find("\n", end)
    if not text[line:start].strip() and after != -1 and not text[end:after].strip():
        return text[:line] + text[after + 1 :]  # it had its line for itself
    while text[end : end + 1] in (" ", "\t") and index < count - 1:
        end += 1
    return text[:start] + text[end:]


def _trimmed(text: str, at: int) -> int:
    """Back over the blanks before `at`."""
    while text[at - 1] in " \t":
        at -= 1
    return at


def _without_table(text: str, places: TomlPositions, path: Path) -> str:
    start = text.rfind("\n", 0, places.keys[path].start) + 1
    end = max(end for table, end in places.ends.items() if table[: len(path)] == path)
    return text[:start] + text[min(len(text), _line_end(text, end) + 1) :]


def _comma(text: str) -> int | None:
    """Where the first comma is that no comment holds; None where the list ends first."""
    in_comment = False
    for index, character in enumerate(text):
        if in_comment:
            in_comment = character != "\n"
        elif character == "#":
            in_comment = True
        elif character == ",":
            return index
    return None


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    end = len(text) if end == -1 else end
    return end - 1 if text[end - 1 : end] == "\r" else end


def _closed(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _proven(text: str, data: dict[str, Any], section: str, name: str, entries: object) -> str:
    """INVARIANT: an edit changes the one value and nothing else, or it is refused."""
    wanted = {**data, section: {**data.get(section, {}), name: entries}}
    try:
        if tomllib.loads(text) == wanted:
            return text
    except tomllib.TOMLDecodeError:
        pass
    raise _cannot()


def _cannot() -> PolicyError:
    return PolicyError("pinfold cannot edit this file safely", help="edit it by hand")
