"""The text a tree was made of: where its nodes stand, in characters, and how they were written."""

from typing import Any

from pinfold.model.locations import Span


class Source:
    """`within` is the place in the outer line of a text that was found inside of it (`bash -c '...'`). Every
    span is one of the line: where the text stands there as it is, unescaped, from `start` on, that of the
    node; else the whole place, since the text's own offsets mean nothing to who reads the line."""

    def __init__(self, text: str, within: Span | None = None, start: int | None = None) -> None:
        self.text = text
        self.within = within
        self.start = start
        self._starts = None if text.isascii() else _character_of_byte(text)

    def span(self, node: dict[str, Any]) -> Span:
        return self.in_the_line(self.place(node))

    def in_the_line(self, place: Span) -> Span:
        """A place of this text, as one of the outer line."""
        if self.start is not None:
            return Span(self.start + place.start, self.start + place.end)
        return self.within or place

    def place(self, node: dict[str, Any]) -> Span:
        """Where it stands in this very text."""
        return self.between(node["Pos"]["Offset"], node["End"]["Offset"])

    def between(self, start: int, end: int) -> Span:
        """A stretch of bytes as a stretch of characters."""
        if self._starts is None:
            return Span(start, end)
        last = len(self._starts) - 1
        return Span(self._starts[min(start, last)], self._starts[min(end, last)])

    def written(self, node: dict[str, Any]) -> str:
        place = self.place(node)
        return self.text[place.start : place.end]


def _character_of_byte(text: str) -> list[int]:
    table: list[int] = []
    for index, character in enumerate(text):
        table.extend([index] * len(character.encode(errors="surrogatepass")))
    table.append(len(text))
    return table
