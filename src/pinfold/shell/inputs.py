"""What a command reads from standard input, as far as the line itself says it.

This module decides which words of a line become the input of a command: here-documents and here-strings,
what `echo`, `printf` and `cat` print into a pipe, and process substitutions. It does not know which programs
run what they read; `unwrap` asks a program's chart.

Facts about bash: of several redirections of standard input the last one holds, and any descriptor that was
opened before can become it (`3<<< text <&3`). So every text that may be the input counts as one.
"""

import re
from collections.abc import Iterable
from typing import Any

from pinfold.model.script import PROCESS_SUBSTITUTION, Computed, Redirection, Text, Word
from pinfold.model.text import Span
from pinfold.shell.here_documents import read_here_document
from pinfold.shell.words import Scope, read_words

STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
HERE = frozenset({"<<", "<<-", "<<<"})
PIPE = "|"
PRINTS_FILES = frozenset({"cat", "zcat", "bzcat", "xzcat", "zstdcat"})
_FORMAT = r"\\[nt\\]|%[%s]|[^\\%]+"
_ESCAPED = r"\\[abcefnrtvxuU0-9\\]"
"""What `echo` of some shells undoes, and that of others with some options."""
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "%%": "%"}


def piped(text: Word) -> Redirection:
    """What the other end of a pipe writes, as the input of a command."""
    return Redirection(PIPE, text, text.span, writes=False, reads=False, feeds=True)


def unknown_text(span: Span) -> Word:
    return Word("...", span, (Computed("output of a command", quoted=True),))


def given_texts(inputs: Iterable[Redirection]) -> tuple[Word, ...]:
    """Those of the inputs that are texts in the line; what is computed in them is left as it is."""
    return tuple(each.target for each in inputs if _is_text(each))


def is_made_by_a_command(given: Redirection) -> bool:
    """Whether what an input holds is made while the line runs, so that nobody can have looked at it."""
    if _is_text(given):
        return any(isinstance(part, Computed) for part in given.target.parts)
    return given.operator == "<&" or is_stream(given.target)


def _is_text(given: Redirection) -> bool:
    return given.operator in HERE or given.operator == PIPE


def is_stream(file: Word) -> bool:
    """Whether a file's name stands for an input, or for what a command of the line writes."""
    text = file.literal
    if text is not None:
        return text in STANDARD_INPUT or text.startswith(("/dev/fd/", "/proc/"))
    return any(isinstance(part, Computed) and part.what == PROCESS_SUBSTITUTION for part in file.parts)


def printed(stmt: dict[str, Any], scope: Scope) -> Word | None:
    """What a statement writes into a pipe; None where that is what files hold, which no line tells."""
    span = scope.source.span(stmt)
    command = stmt.get("Cmd") or {}
    if command.get("Type") != "CallExpr" or "Assigns" in command:
        return unknown_text(span)
    words = [word for argument in command.get("Args", ()) for word in read_words(argument, scope)]
    name = words[0].literal if words else None
    if name is None or name in scope.defined:
        return unknown_text(span)
    redirects = stmt.get("Redirs", ())
    if name in PRINTS_FILES and len(words) > 1 and not redirects and not any(map(is_stream, words[1:])):
        return None
    if name == "cat" and len(words) == len(redirects) == 1 and redirects[0]["Op"] in ("<<", "<<-"):
        return read_here_document(redirects[0], scope)
    if redirects:
        return unknown_text(span)
    if name == "echo":
        return _echoed(words[1:], span)
    if name == "printf" and len(words) > 1:
        return _formatted(words[1:], span)
    return unknown_text(span)


def _echoed(words: list[Word], span: Span) -> Word:
    if words and words[0].literal == "-n":
        words = words[1:]
    if words and words[0].start.startswith("-"):
        return unknown_text(span)
    parts = [part for word in words for part in (*word.parts, Text(" "))]
    if any(isinstance(part, Text) and re.search(_ESCAPED, part.text) for part in parts):
        return unknown_text(span)
    return Word(" ".join(word.source for word in words), span, tuple(parts))


def _formatted(words: list[Word], span: Span) -> Word:
    texts = [word.literal for word in words]
    known = [text for text in texts if text is not None]
    pieces = re.findall(_FORMAT, known[0]) if len(known) == len(texts) else []
    if not pieces or "".join(pieces) != known[0]:
        return unknown_text(span)
    left = known[1:]
    made: list[str] = []
    while True:  # the format is used again until no operand is left
        made += [
            (left.pop(0) if left else "") if piece == "%s" else _ESCAPES.get(piece, piece) for piece in pieces
        ]
        if not left or "%s" not in pieces:
            return Word(words[0].source, span, (Text("".join(made)),))
