"""What a command prints and writes, as far as the line itself holds it.

This module decides what `echo`, `printf` and `cat` print into a pipe or a file, and what `tee`, `cp` and the
like write to files: `data/` says which programs copy what they read. `stdin` and `written_files` use the
result.
"""

import re
from collections.abc import Iterator

from pinfold.model.script import Command, Redirection, Text, Word
from pinfold.model.text_positions import Span
from pinfold.shell.programs import chart
from pinfold.shell.redirections import read_here_document
from pinfold.shell.stdin import (
    given_texts,
    is_of_standard_input,
    is_standard_input,
    is_stream,
    is_text,
    piped,
    unknown_text,
)
from pinfold.shell.tree_text import Node
from pinfold.shell.words import Scope, read_words
from pinfold.shell.written_files import WrittenFile, name_of

PRINTS_FILES = frozenset({"cat", "zcat", "bzcat", "xzcat", "zstdcat"})
_FORMAT = r"\\[nt\\]|%[%s]|[^\\%]+"
_ESCAPED = r"\\[abceEfnrtvxuU0-9\\]"
"""Escapes that the `echo` of some shells expands, and that of others with some options."""
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "%%": "%"}


def printed(stmt: Node, scope: Scope) -> tuple[Word | None, list[Word]]:
    """The text that a statement writes into a pipe; or None, and the files whose content it writes."""
    span = scope.source.span(stmt)
    unknown = unknown_text(span), list[Word]()
    command = stmt.get("Cmd") or {}
    if command.get("Type") != "CallExpr" or "Assigns" in command:
        return unknown
    words = [word for argument in command.get("Args", ()) for word in read_words(argument, scope)]
    name = words[0].literal if words else None
    redirects = stmt.get("Redirs", ())
    if name is None or name in scope.defined or len(redirects) > 1:
        return unknown
    fed = tuple(
        piped(read_here_document(each, scope))
        for each in redirects
        if each["Op"] in ("<<", "<<-") and is_of_standard_input(each)
    )
    if len(fed) < len(redirects):
        return unknown
    return output(tuple(words), fed, span), words[1:]


def output(words: tuple[Word, ...], fed: tuple[Redirection, ...], span: Span) -> Word | None:
    """The text that a command prints that reads `fed`; None where it prints the files that it names."""
    name = words[0].literal if words else None
    if name in PRINTS_FILES and _are_files(words[1:]):
        return None
    if name == "cat" and len(words) == len(fed) == 1 and is_text(fed[0]):
        return fed[0].target
    if name == "echo":
        return _echoed(words[1:], span)
    if name == "printf" and len(words) > 1:
        return _formatted(words[1:], span)
    return unknown_text(span)


def _are_files(words: tuple[Word, ...]) -> bool:
    """Whether a program with these words reads files alone: without a file it reads standard input."""
    is_some = any(not (word.start.startswith("-") or word.may_vanish) for word in words)
    return is_some and not any(map(is_stream, words))


def _echoed(words: tuple[Word, ...], span: Span) -> Word:
    options = set[str | None]()
    while words and words[0].literal in ("-n", "-e"):
        options.add(words[0].literal)
        words = words[1:]
    if words and words[0].start.startswith("-"):
        return unknown_text(span)
    end = "" if "-n" in options else "\n"
    parts = [part for word in words for part in (Text(" "), *word.parts)][1:]
    if "-e" in options:
        parts = [_without_escapes(part) if isinstance(part, Text) else part for part in parts]
    if re.search(_ESCAPED, "".join(part.text for part in parts if isinstance(part, Text))):
        return unknown_text(span)
    return Word(" ".join(word.source for word in words), span, (*parts, *([Text(end)] if end else ())))


def _without_escapes(text: Text) -> Text:
    return Text(re.sub(r"\\[nt\\]", lambda escape: _ESCAPES[escape[0]], text.text))


def _formatted(words: tuple[Word, ...], span: Span) -> Word:
    texts = [word.literal for word in words]
    known = [text for text in texts if text is not None]
    pieces = re.findall(_FORMAT, known[0]) if len(known) == len(texts) else []
    if not pieces or "".join(pieces) != known[0] or known[0].startswith("-"):
        return unknown_text(span)
    left = known[1:]
    made: list[str] = []
    while True:  # printf uses the format again until no operand is left
        made += [
            (left.pop(0) if left else "") if piece == "%s" else _ESCAPES.get(piece, piece) for piece in pieces
        ]
        if not left or "%s" not in pieces:
            return Word(words[0].source, span, (Text("".join(made)),))


def written_by(command: Command) -> Iterator[WrittenFile]:
    """The files that a command writes, and their texts."""
    for redirection in command.redirections:
        if redirection.writes:
            text = output(command.words, command.inputs, command.span)
            sources = command.words[1:] if text is None else ()
            yield from _written(redirection.target, text, sources, appends=redirection.operator[-2:] == ">>")
    known = chart(command.program) if command.writes else None
    if known is not None and known.program.passes_on:
        streams = [file for file in command.reads if is_stream(file)]
        given = given_texts(command.inputs)
        is_known = len(given) == len(command.inputs) == 1 and all(map(is_standard_input, streams))
        text = given[0] if is_known else unknown_text(command.span)
        is_passed_on = bool(streams) or not command.reads
        for file in command.writes:
            appends = "-a" in command.flags
            yield from _written(file, text if is_passed_on else None, command.reads, appends=appends)


def _written(
    file: Word, text: Word | None, sources: tuple[Word, ...], *, appends: bool
) -> Iterator[WrittenFile]:
    name = name_of(file)
    if text is not None and (name or text.literal is not None):
        yield WrittenFile(name, text=text, appends=appends)
    if name:
        yield from (WrittenFile(name, source=source, appends=appends) for source in sources)
