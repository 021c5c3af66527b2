"""Nodes of the syntax tree and the text they were made of.

Says where a node lies in the text, in characters, how it was written, and which literal text holds more
than characters: bash expands some of it now, and evaluates some later.

Facts about shfmt 3.14, each one tried: inside of `${x:-...}`, `${x/a/...}`, `${x#...}` and the like, and in
the groups of `[[ x =~ (...) ]]`, it takes `<(cmd)` and `>(cmd)` for literal text. bash starts `cmd`.

INVARIANT: literal text in which bash would still expand something is never taken for literal.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pinfold.model.text_positions import Span
from pinfold.shell.quotes import undo_ansi_c

Node = dict[str, Any]
"""A node of the tree, as shfmt prints it in JSON."""


class SourceText:
    """A text and where it lies in the line. Every span is one of the line.

    `within` is the place in the line of a text found inside of it (`bash -c '...'`). Where the line holds the
    text as it is, unescaped, from `start` on, the span is that of the node. Else it is the whole place, since
    the text's own offsets mean nothing to a person who reads the line.
    """

    def __init__(self, text: str, within: Span | None = None, start: int | None = None) -> None:
        self.text = text
        self.within = within
        self.start = start
        self._starts = None if text.isascii() else _character_of_byte(text)

    def span(self, node: Node) -> Span:
        return self.in_the_line(self.place(node))

    def in_the_line(self, place: Span) -> Span:
        """A place in this text, as a place in the line."""
        if self.start is not None:
            return Span(self.start + place.start, self.start + place.end)
        return self.within or place

    def place(self, node: Node) -> Span:
        """The place of a node in this text."""
        return self.between(node["Pos"]["Offset"], node["End"]["Offset"])

    def between(self, start: int, end: int) -> Span:
        """A stretch of bytes as a stretch of characters."""
        if self._starts is None:
            return Span(start, end)
        last = len(self._starts) - 1
        return Span(self._starts[min(start, last)], self._starts[min(end, last)])

    def written(self, node: Node) -> str:
        place = self.place(node)
        return self.text[place.start : place.end]


def _character_of_byte(text: str) -> list[int]:
    table: list[int] = []
    for index, character in enumerate(text):
        table.extend([index] * len(character.encode(errors="surrogatepass")))
    table.append(len(text))
    return table


_DOLLAR = r"\$[\w({\[@*#?$!-]"
_QUOTED = re.compile(rf"{_DOLLAR}|`")
_UNQUOTED = re.compile(rf"""{_DOLLAR}|[`'"]|\$['"]|[<>]\(|\A=\(""")
"""Finds expansions in unquoted text; `=(cmd)` at the start of a word is zsh's."""
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_SUBSTITUTION = re.compile(r"[$<>]\(|`|\$\{[ \t\n\r\f\v|]")


def value_of(part: Node) -> str:
    """The text of a literal; shfmt leaves it out where there is nothing but a continued line."""
    text: str = part.get("Value", "")
    return text


def still_expands(text: str, *, quoted: bool) -> bool:
    """Whether bash expands something in a literal of the tree."""
    signs = _QUOTED if quoted else _UNQUOTED
    if signs.search(text) is None:
        return False
    return signs.search(_ESCAPED.sub("  ", text)) is not None


def quoted_substitutions(parts: Sequence[Node]) -> list[str]:
    """The literal text of a word with quoting undone and its pieces joined, where that holds a
    substitution."""
    if len(parts) == 1 and parts[0]["Type"] == "Lit":  # nearly every word
        text = _unquoted(parts[0])
        return [text] if holds_substitution(text) else []
    return [text for text in _stretches(parts) if holds_substitution(text)]


def holds_substitution(text: str) -> bool:
    return _SUBSTITUTION.search(text) is not None


def _stretches(parts: Sequence[Node]) -> Iterator[str]:
    """The literal text between the expansions of a word."""
    joined = ""
    for part in parts:
        match part["Type"]:
            case "Lit" | "SglQuoted":
                joined += _unquoted(part)
            case "DblQuoted":
                first, *others = _stretches(part.get("Parts", ()))
                joined += first
                for stretch in others:
                    yield joined
                    joined = stretch
            case _:
                yield joined
                joined = ""
    yield joined


def _unquoted(part: Node) -> str:
    text = value_of(part)
    if not part.get("Dollar"):
        return text.replace("\\", "")
    value = undo_ansi_c(text)
    return "$(" if value is None else value  # an unknown value may be one


def commands_in(text: str) -> Iterator[str]:
    """The commands of the substitutions in a text, as far as their ends can be found."""
    at = 0
    while (found := _SUBSTITUTION.search(text, at)) is not None:
        closing = {"(": ")", "`": "`"}.get(found[0][-1], "}")
        inner = _up_to_its_end(text, found.end(), closing)
        at = found.end() + len(inner)  # substitutions in it are found when it is parsed itself
        if inner.strip():
            yield inner


def _up_to_its_end(text: str, start: int, closing: str) -> str:
    depth, quote, at = 1, "", start
    while at < len(text):
        c = text[at]
        if c == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == closing:
            depth -= 1
            if not depth:
                break
        elif c == "(":
            depth += closing == ")"
        at += 1
    return text[start:at]
