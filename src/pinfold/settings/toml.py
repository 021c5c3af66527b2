"""A settings text that was parsed: its data, the position of each value, and errors that show it.

Turns every way a text can be broken into one `PolicyError`. Knows no keys and opens no files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import is_invisible, visible
from pinfold.model.text_positions import Origin

if TYPE_CHECKING:
    from pinfold.settings.toml_positions import Path, TomlPosition, TomlPositions

_EXCERPT = 100
"""Columns of a line that an excerpt shows."""
_QUOTED, _LITERAL = r'"(?:[^"\\\n]|\\[^\n])*+', r"'[^'\n]*+"
"""Texts, without the end."""
_PIECES = rf"""
    \#[^\n]*+
    | \"{{3}} (?:[^\\]|\\.)*? (?:\"{{3,5}}|\\?\Z)
    | '{{3}} .*? (?:'{{3,5}}|\Z)
    | (?P<deep> (?:(?:[\w-]++|{_QUOTED}"|{_LITERAL}') [ \t]*+ \. [ \t]*+){{40}})
    | {_QUOTED}"? | {_LITERAL}'?
    | [\w-]++
"""
"""Comments, texts of several lines, keys of too many parts, texts, words: in a text and behind a `#` dots
mean nothing. Of a dotted key `tomllib` keeps all parts that lead to each, which is their square in memory. A
text that is never closed is a piece too: its end would be looked for from every quote, a square in time."""


class PlacedError(PolicyError):
    """A `PolicyError` that knows where in which file it is, for programs."""

    def __init__(self, message: str, file: str, text: str, place: TomlPosition, help: str = "") -> None:
        where = f"{visible(file)}:{place.line}"
        super().__init__(message, where=where, excerpt=excerpt(text, place), help=help)
        self.file = file
        self.line = place.line
        self.column = place.column


class Document:
    """One file, or values that came from elsewhere (then `file` and `text` are empty)."""

    def __init__(
        self, layer: str, file: str, text: str, data: dict[str, object], root: str = "", told: str = ""
    ) -> None:
        self.layer = layer
        self.file = file
        self.text = text
        self.data = data
        self.root = root
        """The project it belongs to; relative paths of a project's restrictions start there."""
        self.told = told
        """What errors call it if it is no file, and the layer's name would not help."""
        self._places: TomlPositions | None = None

    @property
    def places(self) -> TomlPositions:
        if self._places is None:
            from pinfold.settings.toml_positions import locate

            self._places = locate(self.text)
        return self._places

    def place(self, path: Path, key: bool = False) -> TomlPosition | None:
        """The position of the value (or its key), or else that of its parent."""
        if not self.text:
            return None
        while path:
            value, header = self.places.values.get(path), self.places.keys.get(path)
            found = header or value if key else value or header
            if found is not None:
                return found
            path = path[:-1]
        return None

    def origin(self, path: Path) -> Origin:
        place = self.place(path)
        return Origin(self.layer, self.file, place.line if place else 0)

    def error(self, path: Path, message: str, help: str = "", key: bool = False) -> PolicyError:
        place = self.place(path, key)
        if place is None:
            told = ".".join(map(str, path))
            where = self.file or self.told or self.layer
            return PolicyError(message, where=where if told in message else f"{where}: {told}", help=help)
        return PlacedError(message, self.file, self.text, place, help)


def parse(layer: str, file: str, text: str, root: str = "") -> Document:
    """The document in `text`, or a `PolicyError` that shows where it breaks."""
    import tomllib  # where there is a text: it costs start-up

    if _has_deep_key(text):
        raise PolicyError("keys are nested too deeply", where=visible(file))
    try:
        return Document(layer, file, text, tomllib.loads(text), root)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(file, text, str(error)) from None
    except RecursionError:
        raise PolicyError("values are nested too deeply", where=visible(file)) from None
    except ValueError as error:  # a number with thousands of digits, an impossible date
        raise PolicyError(f"not valid TOML: {_lowered(str(error))}", where=visible(file)) from None


def _has_deep_key(text: str) -> bool:
    return any(piece["deep"] for piece in re.finditer(_PIECES, text, re.VERBOSE | re.DOTALL))


def _syntax_error(file: str, text: str, told: str) -> PolicyError:
    from pinfold.settings.toml_positions import TomlPosition  # where something is wrong

    match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", told)
    message = _in_toml(_lowered(visible(told[: match.start()] if match else told)))
    lines = text.split("\n")
    line, column = len(lines), len(lines[-1]) + 1
    if match and match[1]:
        line, column = int(match[1]), int(match[2])
    start = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
    return PlacedError(
        message, file, text, TomlPosition(line, column, 1, start), _syntax_help(message, text[start:])
    )


_BETWEEN = "', '"


def _in_toml(message: str) -> str:
    """A key as TOML writes it: `tomllib` tells tables as Python's tuples."""
    return re.sub(r"\('(.*)',?\)", lambda told: f"`{told[1].replace(_BETWEEN, '.')}`", message)


def _syntax_help(message: str, rest: str) -> str:
    if "overwrite" in message or "twice" in message:
        return "it is defined twice; keep one of the two"
    if message.startswith("invalid value") and rest[:1].isalpha():
        return 'strings are written in quotes: "..."'
    return ""


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]


def excerpt(text: str, place: TomlPosition) -> str:
    """The line with carets under the place; nothing in it can disturb a terminal."""
    line = text.split("\n")[place.line - 1].rstrip("\r")
    before, after = line[: place.column - 1], line[place.column - 1 :]
    marked = after[: max(1, place.length)]
    cut = max(0, len(before) - _EXCERPT // 2)
    shown = ("..." if cut else "") + _flat(before[cut:])
    number = str(place.line)
    carets = "^" * max(1, min(_EXCERPT, len(_flat(marked))))
    rest = _flat(after[:_EXCERPT]) + ("..." if len(after) > _EXCERPT else "")
    return f"{number} | {shown}{rest}\n{' ' * len(number)} | {' ' * len(shown)}{carets}"


def _flat(text: str) -> str:
    return "".join(" " if c == "\t" else visible(c) if is_invisible(c) else c for c in text)
