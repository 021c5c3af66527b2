"""What a command reads from standard input, as far as the line itself says it.

This module decides which words of a line become the input of a command: here-documents and here-strings,
what is printed into a pipe (`outputs` knows what), and process substitutions. It does not know which programs
run what they read; `unwrap` asks a program's chart.

Facts about bash: of several redirections of standard input the last one holds. So every text that may be the
input counts as one. Any descriptor that was opened before can become it, in either direction (`<&3`, `0>&3`):
what is read then counts as unknown, wherever it comes from. So does all that a line's commands inherit where
an `exec` anywhere in it replaces the shell's own input: a function, a trap or a loop may come to it late.
"""

import posixpath
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from pinfold.model.locations import Span
from pinfold.model.script import Computed, Redirection, Substitution, Word
from pinfold.shell.results import Places
from pinfold.shell.tree_text import Node

STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
STREAMS = ("/dev/fd/", "/proc/")
UNMOVED: Places = ((),)
HERE = frozenset({"<<", "<<-", "<<<"})
PIPE = "|"


def piped(text: Word) -> Redirection:
    """What the other end of a pipe writes, as the input of a command."""
    return Redirection(PIPE, text, text.span, writes=False, reads=False, feeds=True)


def fed_from(file: Word) -> Redirection:
    """A file that another program prints into a pipe: `cat x | sh` reads what `sh < x` reads."""
    return Redirection("<", file, file.span, writes=False, reads=False, feeds=True)


def unknown_text(span: Span) -> Word:
    return Word("...", span, (Computed("output of a command", quoted=True),))


def is_of_standard_input(redirect: Node) -> bool:
    """Facts about bash: `00` is a descriptor too, and `0>&3` does what `0<&3` does."""
    number = redirect["N"]["Value"] if "N" in redirect else "0" if redirect["Op"].startswith("<") else ""
    return number.isdecimal() and not number.strip("0") and redirect["Op"] in (*HERE, "<", "<>", "<&", ">&")


def given_texts(inputs: Iterable[Redirection]) -> tuple[Word, ...]:
    """Those of the inputs that are texts in the line; what is computed in them is left as it is."""
    return tuple(each.target for each in inputs if is_text(each))


def is_made_by_a_command(given: Redirection, places: Places = UNMOVED) -> bool:
    """Whether what an input holds is made while the line runs, so that nobody can have looked at it."""
    if is_text(given):
        return any(isinstance(part, Computed) for part in given.target.parts)
    return given.operator in ("<&", ">&") or is_stream(given.target, places)


def is_text(given: Redirection) -> bool:
    """Whether it is a text of the line, or what a command of it prints, and no file."""
    return given.operator in HERE or given.operator == PIPE


def is_stream(file: Word, places: Places = UNMOVED) -> bool:
    """Whether a file's name stands for an input, or for what a command of the line writes."""
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
    """The file's name, also as it is after the line changed the directory: `cd /dev; sh stdin`.

    What is computed in it may be empty (`"$X"/dev/stdin`), and enough `..` lead to the root.
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
    """`//dev/./stdin` is `/dev/stdin`."""
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path
