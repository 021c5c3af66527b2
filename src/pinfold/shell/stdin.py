"""What a command reads from standard input, as far as the line itself holds it.

This module decides which texts of a line become the input of a command: here-documents and here-strings, what
a command prints into a pipe (`stdout` knows what), and process substitutions. It does not know which programs
run their input; `unwrap` looks that up in a program's chart.

Facts about bash: of several redirections of standard input the last one counts. So every text that may be the
input counts as one. Any descriptor that was opened before can become standard input, in either direction
(`<&3`, `0>&3`): such input counts as unknown. So does all inherited input of a line in which an `exec`
replaces the shell's own input: a function, a trap or a loop may run after it.
"""

import posixpath
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from pinfold.model.script import Computed, Redirection, Substitution, Word
from pinfold.model.text_positions import Span
from pinfold.shell.findings import Places
from pinfold.shell.tree_text import Node

STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
STREAMS = ("/dev/fd/", "/proc/")
UNMOVED: Places = ((),)
HERE = frozenset({"<<", "<<-", "<<<"})
PIPE = "|"


def piped(text: Word) -> Redirection:
    """A text that the other end of a pipe writes, as the input of a command."""
    return Redirection(PIPE, text, text.span, writes=False, reads=False, feeds=True)


def fed_from(file: Word) -> Redirection:
    """A file that another program prints into a pipe: `cat x | sh` reads what `sh < x` reads."""
    return Redirection("<", file, file.span, writes=False, reads=False, feeds=True)


def unknown_text(span: Span) -> Word:
    return Word("...", span, (Computed("output of a command", quoted=True),))


def is_of_standard_input(redirect: Node) -> bool:
    """Whether a redirection is of standard input. Facts about bash: `00` is a descriptor too, and `0>&3` does
    what `0<&3` does."""
    number = redirect["N"]["Value"] if "N" in redirect else "0" if redirect["Op"].startswith("<") else ""
    return number.isdecimal() and not number.strip("0") and redirect["Op"] in (*HERE, "<", "<>", "<&", ">&")


def given_texts(inputs: Iterable[Redirection]) -> tuple[Word, ...]:
    """The inputs that are texts in the line; computed parts stay as they are."""
    return tuple(each.target for each in inputs if is_text(each))


def is_made_by_a_command(given: Redirection, places: Places = UNMOVED) -> bool:
    """Whether the line makes the content of an input while it runs, so that it cannot be judged before."""
    if is_text(given):
        return any(isinstance(part, Computed) for part in given.target.parts)
    return given.operator in ("<&", ">&") or is_stream(given.target, places)


def is_text(given: Redirection) -> bool:
    """Whether it is a text of the line, or the output of a command of it, and no file."""
    return given.operator in HERE or given.operator == PIPE


def is_stream(file: Word, places: Places = UNMOVED) -> bool:
    """Whether a file's name means standard input, or the output of a command of the line."""
    if is_standard_input(file, places):
        return True
    if any(_shortest(path).startswith(STREAMS) or path.startswith(STREAMS) for path in _paths(file, places)):
        return True
    return any(isinstance(part, Computed) and part.what is Substitution.PROCESS for part in file.parts)


def is_standard_input(file: Word, places: Places = UNMOVED) -> bool:
    if file.has_glob:
        return any(fnmatchcase(name, file.emptied({})) for name in STANDARD_INPUT - {"-"})
    return any(_shortest(path) in STANDARD_INPUT for path in _paths(file, places))


def _paths(file: Word, places: Places) -> Iterator[str]:
    """The paths that a file's name may mean, also after the line changed the directory: `cd /dev; sh stdin`.

    Computed parts may be empty (`"$X"/dev/stdin`), and enough `..` lead to the root.
    """
    text = file.emptied({})
    if not text:
        return
    yield text
    if ".." in text.split("/"):
        yield text.rpartition("..")[2]
    for way in ((None,),) if places is None else places:
        steps = [step.literal if step is not None else None for step in way]
        known = [step for step in steps if step is not None]
        if len(known) < len(steps):
            yield from (name for name in STANDARD_INPUT if name.endswith("/" + posixpath.normpath(text)))
        elif known:
            yield posixpath.join(*known, text)


def _shortest(path: str) -> str:
    """The normalized path: `/dev/stdin` for `//dev/./stdin`."""
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path
