"""What verbs print: sentences, tables, JSON and errors, in colour on a terminal.

Tables for people are drawn by rich, which is loaded when something is drawn and never before. Facts about
rich: it asks the terminal for its width and colours by itself, and obeys NO_COLOR and TERM=dumb. It takes 80
columns where there is no terminal, and on every dumb one. It reads `[word]` as markup unless that is switched
off. Where its reader has gone, it ends the program with exit code 1, which would look like an answer of ours.
"""

import os
import sys
from typing import TYPE_CHECKING

from pinfold.cli import BAD_INPUT, STDERR, STDOUT
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible, visible_json
from pinfold.model.home import home_of
from pinfold.model.locations import Origin

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 100
"""Columns of a sentence."""
WIDEST_TABLE = 120
MOST = 40
"""Columns that a cell may push the next one to."""
INDENT = "  "

_open_line = False
"""Whether the last output of a command to the terminal did not end its line."""


def fold_for_terminal(line: str, descriptor: int, indent: int = 0) -> list[str]:
    """Wraps a sentence for the terminal at a descriptor; leaves it whole where there is no terminal.

    Words are never broken, so that paths can be copied.
    """
    try:
        columns = os.get_terminal_size(descriptor).columns
    except OSError:
        return [line]
    return fold(line, columns or WIDEST, indent)


def fold(line: str, columns: int, indent: int = 0) -> list[str]:
    """Wraps a sentence. `indent` is that of all lines but the first; 0 is two more than the first line
    has."""
    from textwrap import wrap

    hang = " " * (indent or len(line) - len(line.lstrip()) + len(INDENT))
    return wrap(
        line,
        min(WIDEST, columns) - 1,
        subsequent_indent=hang,
        break_on_hyphens=False,
        break_long_words=False,
    )


def print_sentence(sentence: str) -> None:
    """Prints a sentence on standard output, wrapped for the terminal."""
    print("\n".join(fold_for_terminal(sentence, STDOUT)))


def note_written(data: bytes) -> None:
    """Remembers whether a command's output to the terminal ended its line, so that `report` can start a new
    one."""
    global _open_line  # there is one terminal
    _open_line = not data.endswith(b"\n") if data else _open_line


def report(sentence: str) -> None:
    """Prints `pinfold: ...` on standard error."""
    start = "\n" if _open_line and sys.stderr.isatty() else ""
    note_written(b"\n")
    print(start + "\n".join(fold_for_terminal(f"pinfold: {sentence}", STDERR)), file=sys.stderr)


def is_coloured(stream: object = None) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set or the terminal is dumb."""
    out = sys.stdout if stream is None else stream
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return bool(getattr(out, "isatty", bool)()) and not plain


def paint(text: str, colour: str, on: bool) -> str:
    codes = {"red": "31", "yellow": "33", "green": "32", "bold": "1", "dim": "2"}
    return f"\x1b[{codes[colour]}m{text}\x1b[0m" if on else text


def origin_text(origin: Origin) -> str:
    """Where a value is written, as a short `path:line`; empty for a default."""
    if not origin.file:
        return ""
    file = short_path(origin.file)
    return visible(f"{file}:{origin.line}" if origin.line else file)


def short_path(path: str) -> str:
    """A path relative to the working directory, or to the home as `~/`; else the whole path."""
    try:
        near = os.getcwd()
    except OSError:
        near = "/"
    for base, sign in ((near, ""), (home_of(os.environ), "~/")):
        if base != "/" and path.startswith(base + "/"):
            return sign + path[len(base) + 1 :]
    return path


def print_json(value: object) -> None:
    from msgspec import json

    if sys.stdout is None:
        raise OSError(None, "standard output is closed")
    try:
        encoded = json.encode(value)
    except UnicodeEncodeError:  # a path that is not UTF-8, for one
        from pinfold.session.serialize import all_writable

        encoded = json.encode(all_writable(value))
    sys.stdout.write(visible_json(json.format(encoded, indent=2).decode()) + "\n")


def print_error(error: PolicyError, *, as_json: bool = False) -> int:
    """Prints where the error is, what it is, the excerpt and the help; returns the exit code."""
    if as_json:
        print_error_json(error.message, error.where, error.help)
        return BAD_INPUT
    out = sys.stderr
    colour = is_coloured(out)
    where = f"{visible(error.where)}: " if error.where else ""
    print(f"pinfold: {paint(where, 'bold', colour)}{paint(visible(error.message), 'red', colour)}", file=out)
    for line in error.excerpt.split("\n") if error.excerpt else ():
        print(f"  {visible(line)}", file=out)
    if error.help:
        print(f"  {paint('help:', 'green', colour)} {visible(error.help)}", file=out)
    return BAD_INPUT


def print_error_json(message: str, where: str = "", help: str = "") -> None:
    print_json({"error": {"where": where, "message": message, "help": help}})


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Prints aligned columns. Cells over `MOST` columns push the next one; the last takes what it needs."""
    if not rows:
        return
    widths = [min(MOST, max(len(row[column]) for row in rows)) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        print("  ".join([*cells, row[-1]]).rstrip())


def make_console(*, stderr: bool = False) -> "Console":
    from shutil import get_terminal_size

    from rich.console import Console, ConsoleDimensions

    class PinfoldConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = PinfoldConsole(stderr=stderr, markup=False, highlight=False, emoji=False)
    width, height = get_terminal_size() if console.is_dumb_terminal else console.size
    console.size = ConsoleDimensions(min(width, WIDEST_TABLE), height)
    return console


def print_rich_table(console: "Console", drawn: "Table") -> None:
    """Prints a table without the blanks that rich adds at the ends of lines."""
    with console.capture() as caught:
        console.print(drawn)
    lines = caught.get().splitlines()
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def make_table(*columns: str) -> "Table":
    """A table whose last column folds in a narrow terminal, and the others do not."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns[:-1]:
        drawn.add_column(column, no_wrap=True)
    drawn.add_column(columns[-1], overflow="fold")
    return drawn
