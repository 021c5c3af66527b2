"""Draws a command line with carets under some of its parts."""

import os

from pinfold.cli.output import INDENT, WIDEST, caller
from pinfold.model.escape_text import visible
from pinfold.model.text_positions import Span

CONTINUED = "↳ "


def widest() -> int:
    """Columns for a line: the width of the terminal, but at most `WIDEST`."""
    try:
        columns = os.get_terminal_size(caller().stdout).columns
    except OSError:
        return WIDEST
    return max(20, min(WIDEST, columns - len(INDENT) - 4))


def draw(
    text: str, spans: list[Span], *, only_marked: bool = False, width: int = 0, whole: bool = False
) -> list[str]:
    """The lines of `text` with carets under the spans; with `only_marked`, only lines that have a caret.

    `width` is the space for a line; 0 takes the width of the terminal on standard output. A longer line is
    cut around the first mark, or with `whole` continued on the next line.
    """
    drawn: list[str] = []
    width = width or widest()
    start = 0
    for line in text.split("\n"):
        inside = [
            (max(span.start, start) - start, min(span.end, start + len(line)) - start)
            for span in spans
            if span.start < start + len(line) and span.end > start
        ]
        if inside or not only_marked:
            drawn.extend(_marked(line, inside, width, whole))
        start += len(line) + 1
    return drawn


def _marked(line: str, spans: list[tuple[int, int]], width: int, whole: bool) -> list[str]:
    cells = [visible(character) for character in line]
    below = [" " * _columns(cell) for cell in cells]
    for first, last in spans:
        for position in range(first, last):
            below[position] = "^" * _columns(cells[position])
    if whole:
        return _in_pieces(cells, below if spans else [], width)
    first, last = _window(cells, spans, width)
    shown = "".join(cells[first:last])
    head, tail = "… " if first else "", " …" if last < len(cells) else ""
    drawn = [f"{INDENT}{head}{shown}{tail}".rstrip()]
    if spans:
        drawn.append(f"{INDENT}{' ' * len(head)}{''.join(below[first:last])}".rstrip())
    return drawn


def _in_pieces(cells: list[str], below: list[str], width: int) -> list[str]:
    """A whole line in pieces; a piece that continues the one above begins with an arrow."""
    drawn: list[str] = []
    first = 0
    while first < len(cells) or not drawn:
        head = CONTINUED if first else ""
        last, left = first, width - len(head)
        while last < len(cells) and (left := left - _columns(cells[last])) >= 0:
            last += 1
        last = max(last, first + 1)
        drawn.append(f"{INDENT}{head}{''.join(cells[first:last])}".rstrip())
        carets = "".join(below[first:last])
        if carets.strip():
            drawn.append(f"{INDENT}{' ' * len(head)}{carets}".rstrip())
        first = last
    return drawn


def _window(cells: list[str], spans: list[tuple[int, int]], width: int) -> tuple[int, int]:
    """Which cells to show of a line that is too wide: those around the first mark."""
    if sum(map(_columns, cells)) <= width:
        return 0, len(cells)
    first = middle = spans[0][0] if spans else 0
    before = 0
    while first and before + _columns(cells[first - 1]) <= width // 4:
        first -= 1
        before += _columns(cells[first])
    last, shown = middle, before
    while last < len(cells) and shown + _columns(cells[last]) <= width:
        shown += _columns(cells[last])
        last += 1
    while first and last == len(cells) and shown + _columns(cells[first - 1]) <= width:
        first -= 1
        shown += _columns(cells[first])
    return first, last


def _columns(cell: str) -> int:
    if cell.isascii():
        return len(cell)
    return sum(map(columns_of, cell))


def columns_of(character: str) -> int:
    """The columns that a character takes, rather too many than too few."""
    from unicodedata import category, combining, east_asian_width

    if category(character) == "Mc":
        return 1
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


_SPACED = 0xF0000
"""What is added to a character that rich takes for narrower than terminals draw it. The result is for private
use and one column wide. `visible` spells such characters out, so that none can be mistaken for another."""
_SECOND = chr(_SPACED)
"""Stands for the second column of one."""


class _Spacing(dict[int, str]):
    """For `str.translate`."""

    def __missing__(self, code: int) -> str:
        from rich.cells import cell_len

        character = chr(code)
        columns = columns_of(character) if 0x80 <= code < 0x20000 else 0
        is_narrow = cell_len(character) < columns
        self[code] = chr(code + _SPACED) + _SECOND * (columns - 1) if is_narrow else character
        return self[code]


_SPACING = _Spacing()


def spaced(text: str) -> str:
    """Visible text with which rich folds lines as terminals do; see `unspaced`.

    Facts: rich counts no column for the vowel signs of many scripts (Mc), and terminals one. A path of them
    would take many lines more on the screen than rich has counted.
    """
    return text if text.isascii() else text.translate(_SPACING)


def unspaced(text: str) -> str:
    """The text that `spaced` was given."""
    if text.isascii():
        return text
    return "".join(chr(ord(c) - _SPACED) if c > _SECOND else c for c in text if c != _SECOND)
