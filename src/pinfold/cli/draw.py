"""A command line drawn with carets under some of its parts."""

import os
import sys

from pinfold.model.text import Span
from pinfold.model.visible import visible

WIDEST = 100
INDENT = "  "


def draw(text: str, spans: list[Span], mark: str = "^") -> list[str]:
    """The lines of `text` with marks below the spans; unmarked lines of a long text are left out."""
    drawn: list[str] = []
    start = 0
    for line in text.split("\n"):
        inside = [
            (max(span.start, start) - start, min(span.end, start + len(line)) - start)
            for span in spans
            if span.start < start + len(line) and span.end > start
        ]
        drawn.extend(_marked(line, inside, mark))
        start += len(line) + 1
    return drawn


def _marked(line: str, spans: list[tuple[int, int]], mark: str) -> list[str]:
    cells = [visible(character) for character in line]
    below = [" " * _columns(cell) for cell in cells]
    for first, last in spans:
        for position in range(first, last):
            below[position] = mark * _columns(cells[position])
    first, last = _window(cells, spans)
    shown = "".join(cells[first:last])
    head, tail = "… " if first else "", " …" if last < len(cells) else ""
    drawn = [f"{INDENT}{head}{shown}{tail}".rstrip()]
    if spans:
        drawn.append(f"{INDENT}{' ' * len(head)}{''.join(below[first:last])}".rstrip())
    return drawn


def _window(cells: list[str], spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Which cells to show of a line too wide to show whole: those around the first mark."""
    if sum(map(_columns, cells)) <= WIDEST:
        return 0, len(cells)
    middle = spans[0][0] if spans else 0
    first = max(0, min(middle - WIDEST // 4, len(cells) - WIDEST))
    return first, min(len(cells), first + WIDEST)


def _columns(cell: str) -> int:
    if cell.isascii():
        return len(cell)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in cell)


def is_coloured(stream: object = None) -> bool:
    """Colours are for a terminal, and not for those who said NO_COLOR."""
    out = sys.stdout if stream is None else stream
    return bool(getattr(out, "isatty", bool)()) and not os.environ.get("NO_COLOR")


def paint(text: str, colour: str, on: bool) -> str:
    codes = {"red": "31", "yellow": "33", "green": "32", "bold": "1", "dim": "2"}
    return f"\x1b[{codes[colour]}m{text}\x1b[0m" if on else text
