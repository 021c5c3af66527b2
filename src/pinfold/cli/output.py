"""What verbs print: sentences, tables, JSON and errors, in colour on a terminal.

Tables for people are drawn by rich, which is loaded when something is drawn and never before. Facts about
rich: it asks the terminal for its width and colours by itself, and obeys NO_COLOR and TERM=dumb. It takes 80
columns where there is no terminal, and on every dumb one. It reads `[word]` as markup unless that is switched
off. Where its reader has gone, it ends the program with exit code 1, which would look like an answer of ours.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from pinfold.cli import BAD_INPUT, STDERR, STDOUT
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible, visible_json
from pinfold.model.home import home_of
from pinfold.model.text_positions import Origin

if TYPE_CHECKING:
    from typing import Any, TextIO

    from rich.console import Console
    from rich.table import Table

    from pinfold.model.request import RunCommand
    from pinfold.session import Session
    from pinfold.session.execution import Execution

T = TypeVar("T")

WIDEST = 100
"""Columns of a sentence."""
WIDEST_TABLE = 120
MOST = 40
"""Columns that a cell may push the next one to."""
INDENT = "  "


class VerbCaller:
    """The process that a verb works for: this one, or a client of the service (`serve_agents.RunClient`)."""

    is_remote = False
    stdin, stdout, stderr = 0, STDOUT, STDERR
    terminal = "/dev/tty"
    """The terminal at which questions are put."""
    has_open_line = False
    """Whether the last output of a command to the terminal did not end its line."""

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    @property
    def cwd(self) -> str:
        """Raises OSError if it no longer exists."""
        return os.getcwd()

    @property
    def out(self) -> "TextIO | None":
        """Standard output as a text stream; None if it is closed."""
        return sys.stdout

    @property
    def err(self) -> "TextIO | None":
        return sys.stderr

    @property
    def has_input(self) -> bool:
        return sys.stdin is not None

    wake = -1
    """Readable when its threads are to end."""

    def start(self, do: "Callable[[], object]") -> None:
        """Calls the function on a thread that works for it."""
        from threading import Thread

        Thread(target=for_caller(do), daemon=True).start()

    def started(self, session: "Session", command: "RunCommand", **given: "Any") -> "Execution":
        return session.start(command, **given)

    is_cancelled = False
    """Whether a signal has ended its command."""

    def note_interrupt(self) -> None:
        """Its command died of Ctrl-C in its terminal."""
        from pinfold.cli.signals import note_interrupt

        note_interrupt()

    def follow_size(self, do: "Callable[[], object] | None") -> None:
        """Calls the function when its terminal has got another size, until this is called with None."""
        import signal

        signal.signal(signal.SIGWINCH, signal.SIG_DFL if do is None else lambda *_: do())

    def may_read_keys(self) -> bool:
        """Whether keys are typed for it: the kernel stops this process if they are not."""
        return True

    def is_in_front(self) -> bool:
        """Whether it is in the foreground. A background job (`&`) that changes the terminal is stopped."""
        try:
            return os.tcgetpgrp(0) == os.getpgrp()
        except OSError:  # not our controlling terminal, so the kernel does not stop us
            return True


_OURS = VerbCaller()
_caller: ContextVar[VerbCaller] = ContextVar("caller", default=_OURS)


def caller() -> VerbCaller:
    """The process that this thread works for."""
    return _caller.get()


@contextmanager
def working_for(one: VerbCaller) -> Iterator[None]:
    token = _caller.set(one)
    try:
        yield
    finally:
        _caller.reset(token)


def for_caller(do: Callable[..., T]) -> Callable[..., T]:
    """The function, for the process that this thread works for, from whichever thread it is called."""
    one = caller()

    def call(*given: object) -> T:
        with working_for(one):
            return do(*given)

    return call


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
    if data:
        caller().has_open_line = not data.endswith(b"\n")


def report(sentence: str) -> None:
    """Prints `pinfold: ...` on standard error."""
    one = caller()
    start = "\n" if one.has_open_line and one.err and one.err.isatty() else ""
    note_written(b"\n")
    print(start + "\n".join(fold_for_terminal(f"pinfold: {sentence}", one.stderr)), file=one.err)


def is_coloured(stream: object = None) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set or the terminal is dumb."""
    out, environ = caller().out if stream is None else stream, caller().environ
    plain = environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
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
        near = caller().cwd
    except OSError:
        near = "/"
    for base, sign in ((near, ""), (home_of(caller().environ), "~/")):
        if base != "/" and path.startswith(base + "/"):
            return sign + path[len(base) + 1 :]
    return path


def print_json(value: object) -> None:
    from msgspec import json

    if (out := caller().out) is None:
        raise OSError(None, "standard output is closed")
    try:
        encoded = json.encode(value)
    except UnicodeEncodeError:  # a path that is not UTF-8, for one
        from pinfold.session.serialize import all_writable

        encoded = json.encode(all_writable(value))
    out.write(visible_json(json.format(encoded, indent=2).decode()) + "\n")


def print_error(error: PolicyError, *, as_json: bool = False) -> int:
    """Prints where the error is, what it is, the excerpt and the help; returns the exit code."""
    if as_json:
        print_error_json(error.message, error.where, error.help)
        return BAD_INPUT
    out = caller().err
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
