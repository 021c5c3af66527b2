"""The text that a here-document hands over, where bash and shfmt agree on where it begins and ends.

Where they may not, `UnknownNode` says so.
"""

from typing import Any

from pinfold.model.locations import Span
from pinfold.model.script import Part, Text, Word
from pinfold.shell.literals import value_of
from pinfold.shell.quotes import undo_here_document
from pinfold.shell.source import Source
from pinfold.shell.words import Scope, UnknownNode, read_expansion


def read_here_document(redirect: dict[str, Any], scope: Scope) -> Word:
    """The text that a here-document hands over, tabs and quoting undone."""
    body = redirect.get("Hdoc")
    if body is None:
        return Word("", scope.source.span(redirect["Word"]), ())
    strip = redirect["Op"] == "<<-"
    _require_one_end(scope.source.written(body), strip=strip)
    _require_usual_delimiter(redirect["Word"])
    quoted = is_quoted(redirect["Word"])
    if not quoted:
        _require_plain_end(_body_as_bash_reads(body, scope.source))
    parts: list[Part] = []
    at_line_start = True
    for part in body["Parts"]:
        if part["Type"] == "Lit":
            text = value_of(part)
            text = _without_tabs(text, at_line_start) if strip else text
            parts.append(Text(text if quoted else undo_here_document(text)))
            at_line_start = text.endswith("\n") or (at_line_start and not text)
        else:
            parts.append(read_expansion(part, scope, quoted=True))
            at_line_start = False
    # shfmt counts the closing delimiter as part of the body.
    written, place = scope.source.written(body), scope.source.place(body)
    kept = written.rfind("\n") + 1
    span = scope.source.in_the_line(Span(place.start, place.end - len(written) + kept))
    return Word(written[:kept], span, tuple(parts))


def _body_as_bash_reads(body: dict[str, Any], source: Source) -> str:
    """shfmt lets a body begin after the continued lines at its start."""
    place = source.place(body)
    start = place.start
    while source.text[:start].endswith("\\\n"):
        start -= 2
    return source.text[start : place.end]


def _require_one_end(written: str, *, strip: bool) -> None:
    """Facts about bash: a body ends at the first line that is the delimiter, whatever stands open there.
    shfmt reads an expansion, and a quote in it (`${x:-'`), to its end first, and so may pass it over."""
    *lines, delimiter = written.split("\n")
    if strip:
        lines, delimiter = [line.lstrip("\t") for line in lines], delimiter.lstrip("\t")
    if delimiter in lines:
        raise UnknownNode("a here-document in which something stands open at its end")


def _require_plain_end(written: str) -> None:
    """Facts about bash: it joins continued lines before it looks for the delimiter, and shfmt does not. So
    the two may end a body at different lines, where a joined line is, or holds, the delimiter."""
    if "\\\n" not in written:
        return
    delimiter = written.rpartition("\n")[2].strip("\t")
    joined: list[str] = []
    for line in written.split("\n"):
        joined.append(line)
        if (len(line) - len(line.rstrip("\\"))) % 2:
            continue
        whole = "".join(piece[:-1] for piece in joined[:-1]) + line
        if len(joined) > 1 and delimiter in (whole.strip("\t"), line.strip("\t")):
            raise UnknownNode("a here-document whose end is joined from several lines")
        joined = []


def _without_tabs(text: str, at_line_start: bool) -> str:
    first, *lines = text.split("\n")
    return "\n".join([first.lstrip("\t") if at_line_start else first, *(line.lstrip("\t") for line in lines)])


def is_quoted(delimiter: dict[str, Any]) -> bool:
    """Whether the body is literal: facts about bash, any quoted character in the delimiter makes it so."""
    return any(part["Type"] != "Lit" or "\\" in value_of(part) for part in delimiter["Parts"])


def _require_usual_delimiter(delimiter: dict[str, Any]) -> None:
    """Facts about bash: the dollar of `$'E'` stays in bash's delimiter and not in shfmt's, so the two would
    not agree where the body ends."""
    for part in delimiter["Parts"]:
        inner = part.get("Parts", ())
        if part["Type"] not in ("Lit", "SglQuoted", "DblQuoted") or part.get("Dollar"):
            raise UnknownNode("an unusual here-document delimiter")
        if any(piece["Type"] != "Lit" or "\\" in value_of(piece) for piece in inner):
            raise UnknownNode("an unusual here-document delimiter")
