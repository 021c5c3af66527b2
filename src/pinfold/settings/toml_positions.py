"""Finds the line and column of each key and value of a TOML text.

`tomllib` tells values, not places. This scanner runs over a text that `tomllib` has already
accepted, so it only has to find its way, never to judge: what it does with an invalid text is
undefined. It knows nothing of settings.

Facts about TOML that shape it: a key may be bare, quoted or dotted; values span lines only inside
arrays and triple-quoted strings; a header `[[x]]` opens the next element of `x`, and later headers that
begin with `x` mean its last element.
"""

import re
from bisect import bisect_right
from typing import TypeAlias

from msgspec import Struct

Path: TypeAlias = tuple[str | int, ...]


class TomlPosition(Struct, frozen=True):
    """A stretch of the text; lines and columns count from 1."""

    line: int
    column: int
    length: int
    start: int
    """Its first character, counted from 0 through the whole text."""

    @property
    def end(self) -> int:
        return self.start + self.length


class TomlPositions(Struct, frozen=True):
    values: dict[Path, TomlPosition]
    """Every value, array elements and whole arrays included; not tables opened by a header."""
    keys: dict[Path, TomlPosition]
    """The key (its last part, where it is dotted) of each value, and the header of each table."""
    ends: dict[Path, int]
    """For a table with a header, `()` for the top: where its last own line ends."""


_TRIVIA = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANKS = re.compile(r"[ \t]*")
_STRING = r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
_KEY = re.compile(rf"[A-Za-z0-9_-]+|{_STRING}")
_SCALAR = re.compile(
    r'"""(?:[^\\]|\\[\s\S])*?"{3,5}(?!")'
    r"|'''[\s\S]*?'{3,5}(?!')"
    rf"|{_STRING}"
    r"|\d{4}-\d\d-\d\d[Tt ]\d\d:[^\s,\]}#]*"  # a space may stand between date and time
    r"|[^\s,\]}#]+"
)


def locate(text: str) -> TomlPositions:
    """The places of everything in `text`, which must be valid TOML."""
    return _TomlScanner(text).document()


class _TomlScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.places = TomlPositions({}, {}, {(): 0})
        self.counts: dict[Path, int] = {}

    def document(self) -> TomlPositions:
        table: Path = ()
        self._skip(_TRIVIA)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self.places.ends[table] = self.at
            self._skip(_TRIVIA)
        return self.places

    def _header(self) -> Path:
        start = self.at
        many = self.text.startswith("[[", start)
        self.at += 2 if many else 1
        path: Path = ()
        parts = self._key()
        for part, _ in parts[:-1]:
            path = self._last((*path, part))
        path = (*path, parts[-1][0])
        self._skip(_BLANKS)
        self.at += 2 if many else 1
        place = self._place(start, self.at)
        if many:
            self.places.keys.setdefault(path, place)  # the list is where its first table is
            count = self.counts[path] = self.counts.get(path, 0) + 1
            path = (*path, count - 1)
        else:
            path = self._last(path)
        self.places.keys[path] = place
        return path

    def _last(self, path: Path) -> Path:
        return (*path, self.counts[path] - 1) if path in self.counts else path

    def _pair(self, table: Path) -> None:
        path = table
        for part, place in self._key():
            path = (*path, part)
            self.places.keys.setdefault(path, place)
        self.at += 1  # the equals sign
        self._skip(_BLANKS)
        self._value(path)

    def _key(self) -> list[tuple[str, TomlPosition]]:
        """A dotted key; leaves the scanner at what follows it."""
        parts: list[tuple[str, TomlPosition]] = []
        while True:
            self._skip(_BLANKS)
            start = self.at
            spelled = self._take(_KEY)
            parts.append((_unquoted(spelled), self._place(start, self.at)))
            self._skip(_BLANKS)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        start = self.at
        opening = self.text[start]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._take(_SCALAR)
        self.places.values[path] = self._place(start, self.at)

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self._skip(_TRIVIA)
            if self.text[self.at] == "]":
                break
            self._value((*path, index))
            index += 1
            self._skip(_TRIVIA)
            if self.text[self.at] == ",":
                self.at += 1
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_TRIVIA)
            if self.text[self.at] == "}":
                break
            self._pair(path)
            self._skip(_TRIVIA)
            if self.text[self.at] == ",":
                self.at += 1
        self.at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"not valid TOML at character {self.at}")
        self.at = match.end()
        return match.group()

    def _place(self, start: int, end: int) -> TomlPosition:
        line = bisect_right(self.lines, start)
        return TomlPosition(line, start - self.lines[line - 1] + 1, end - start, start)


def _unquoted(key: str) -> str:
    if key[0] == "'" or (key[0] == '"' and "\\" not in key):
        return key[1:-1]
    if key[0] != '"':
        return key
    import tomllib

    return str(tomllib.loads(f"key = {key}")["key"])
