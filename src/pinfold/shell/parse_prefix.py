"""How far a text can be read: all of it, or the lines that run before bash meets a syntax error.

This module decides which start of a broken text is still judged. It knows no process and no policy: it is
given a function that makes trees.

Facts about bash, each one tried: a text (`-c`, `eval`, standard input) is read line by line, and a list of
commands runs as soon as its last line is read. `bash -c $'rm -rf D\nif then'` deletes D. `rm D; if then`
does not: the error stands on the line of the command. dash does the same.

What this means for us: trouble in a text says nothing about the lines before it. Whoever reads a text gets
the longest start of whole lines that has a tree, and the trouble beside it. Accepted imperfection: shfmt
also refuses what bash refuses only while it runs (`$((1 +))`), and there the commands of the same line run
too. The trouble says that what follows is unknown.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from pinfold.shell.shfmt import Trouble

Tree = dict[str, Any]
TRIES = 32
_ONE_BY_ONE = 16
"""After so many tries the start is halved each time, so that the first lines are reached in any case."""


class Reading(Struct, frozen=True):
    text: str
    """The start of the text that `tree` is made of; the whole text if there is no trouble."""
    tree: Tree
    trouble: Trouble | None = None


def read_lines(text: str, load: Callable[[str], Tree]) -> Reading:
    """The tree of `text`, or of the longest start of whole lines that has one."""
    try:
        return Reading(text, load(text))
    except Trouble as trouble:
        return _before(text, trouble, load)


def lines_before(text: str, offset: int | None) -> int:
    """How many whole lines stand before the place; before the last line, where the place is not known."""
    return text.count("\n", 0, offset) if offset is not None else text.rstrip("\n").count("\n")


def _before(text: str, trouble: Trouble, load: Callable[[str], Tree]) -> Reading:
    lines = text.split("\n")
    count = lines_before(text, trouble.offset)
    for tried in range(TRIES):
        start = "".join(line + "\n" for line in lines[:count])
        if not start.strip():
            break
        try:
            return Reading(start, load(start), trouble)
        except Trouble as again:
            fewer = count - 1 if tried < _ONE_BY_ONE else count // 2
            count = min(fewer, lines_before(start, again.offset))
    return Reading("", {}, trouble)
