"""A sheet to draw tables on: rich, loaded when something is drawn for a person, never before.

Facts about rich: it asks the terminal for its width and colours by itself, obeys NO_COLOR and TERM=dumb, and
takes 80 columns where there is no terminal, and on every dumb one. It reads `[word]` as markup unless told
not to. Where nobody reads what it draws any more, it ends the program with 1, which is an answer of ours.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 120


def paper(*, stderr: bool = False) -> "Console":
    from shutil import get_terminal_size

    from rich.console import Console, ConsoleDimensions

    class Sheet(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    sheet = Sheet(stderr=stderr, markup=False, highlight=False, emoji=False)
    width, height = get_terminal_size() if sheet.is_dumb_terminal else sheet.size
    sheet.size = ConsoleDimensions(min(width, WIDEST), height)
    return sheet


def put(sheet: "Console", drawn: "Table") -> None:
    """A table, without the blanks that rich fills its lines with."""
    with sheet.capture() as caught:
        sheet.print(drawn)
    lines = caught.get().splitlines()
    sheet.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def table(*columns: str) -> "Table":
    """Columns of which only the last gives way to a narrow terminal."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns[:-1]:
        drawn.add_column(column, no_wrap=True)
    drawn.add_column(columns[-1], overflow="fold")
    return drawn
