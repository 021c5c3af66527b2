"""Redirections of the tree: where bash reads and writes, and what it expands or evaluates on the way.

This module decides what a redirection gives a command to read, which file it writes, and which variable gets
the number of a descriptor. It reads the text of a here-document where bash and shfmt agree on where the text
begins and ends, and raises `UnknownNode` where they may not. `walk` knows which command a redirection is for.
"""

from collections.abc import Sequence

from pinfold.model.script import Part, Redirection, Text, Word
from pinfold.model.text_positions import Span
from pinfold.shell.expansions import ExpansionVisitor
from pinfold.shell.findings import Places
from pinfold.shell.quotes import undo_here_document
from pinfold.shell.stdin import HERE, is_of_standard_input
from pinfold.shell.tree_text import Node, SourceText, holds_substitution, value_of
from pinfold.shell.words import Scope, UnknownNode, read_expansion, read_word, read_words


def read_here_document(redirect: Node, scope: Scope) -> Word:
    """The text of a here-document, with tabs removed and quoting undone."""
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


def _body_as_bash_reads(body: Node, source: SourceText) -> str:
    """The text of a body as bash has it: shfmt lets a body begin after the continued lines at its start."""
    place = source.place(body)
    start = place.start
    while source.text[:start].endswith("\\\n"):
        start -= 2
    return source.text[start : place.end]


def _require_one_end(written: str, *, strip: bool) -> None:
    """Raises `UnknownNode` if a line inside of the body is the delimiter.

    Facts about bash: a body ends at the first line that is the delimiter, even inside of an open expansion.
    shfmt reads an expansion, and a quote in it (`${x:-'`), to its end first, and so may miss that line.
    """
    *lines, delimiter = written.split("\n")
    if strip:
        lines, delimiter = [line.lstrip("\t") for line in lines], delimiter.lstrip("\t")
    if delimiter in lines:
        raise UnknownNode("a here-document that ends inside of an expansion")


def _require_plain_end(written: str) -> None:
    """Raises `UnknownNode` where bash and shfmt may end a body at different lines.

    Facts about bash: it joins continued lines before it looks for the delimiter, and shfmt does not. So the
    two may differ where a joined line is, or holds, the delimiter.
    """
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


def is_quoted(delimiter: Node) -> bool:
    """Whether the body is literal. Facts about bash: any quoted character in the delimiter makes it so."""
    return any(part["Type"] != "Lit" or "\\" in value_of(part) for part in delimiter["Parts"])


def _require_usual_delimiter(delimiter: Node) -> None:
    """Raises `UnknownNode` for a delimiter that bash and shfmt may read differently.

    Facts about bash: the dollar of `$'E'` stays in bash's delimiter and not in shfmt's, so the two would not
    agree where the body ends.
    """
    for part in delimiter["Parts"]:
        inner = part.get("Parts", ())
        if part["Type"] not in ("Lit", "SglQuoted", "DblQuoted") or part.get("Dollar"):
            raise UnknownNode("an unusual here-document delimiter")
        if any(piece["Type"] != "Lit" or "\\" in value_of(piece) for piece in inner):
            raise UnknownNode("an unusual here-document delimiter")


_WRITES = frozenset((">", ">>", ">|", "<>", "&>", "&>>", ">&"))
_READS = frozenset(("<", "<>"))
LONGEST_NUMBER = 9
"""Digits of a descriptor. Beyond an int, bash takes them for a word of the command; shfmt does not."""
_EVALUATES = "a redirection evaluates a subscript"


class RedirectionVisitor(ExpansionVisitor):
    def redirect(self, node: Node, places: Places) -> list[Redirection]:
        op = node["Op"]
        span = self.source.span(node["Word"])
        if "N" in node and node["N"]["Value"].startswith("{"):
            self.descriptor_name(node["N"]["Value"][1:-1], self.source.span(node["N"]))
        elif "N" in node and len(node["N"]["Value"]) > LONGEST_NUMBER:
            raise UnknownNode("a descriptor number that bash takes for a word")
        # Another descriptor may become standard input later, but then by `<&`.
        feeds = is_of_standard_input(node)
        if op in HERE:
            text = self.here_text(node, places)
            return [Redirection(op, text, span, writes=False, reads=False, feeds=feeds)]
        if op not in _WRITES and op not in _READS and op != "<&":
            raise UnknownNode(f"an unknown redirection: {op}")
        self.visit_word(node["Word"], places)
        words = read_words(node["Word"], self.scope)
        if op == "<" and all((w.literal or "x").strip("0123456789") == "-" for w in words):
            self.findings.unknown("has another meaning in zsh", span)
        found: list[Redirection] = []
        for word in words:
            if op in ("<&", ">&") and _is_descriptor(word):
                if feeds and word.literal not in ("-", "0"):
                    found.append(Redirection(op, word, span, writes=False, reads=False, feeds=True))
                continue
            if word.start.startswith(("/dev/tcp/", "/dev/udp/")):
                self.findings.unknown("opens a network connection", span)
            writes = op in _WRITES
            found.append(Redirection(op, word, span, writes=writes, reads=op in _READS, feeds=feeds))
        return found

    def descriptor_name(self, name: str, span: Span) -> None:
        """Notes the variable of `{name}>file`, which gets a descriptor. bash evaluates a subscript in it."""
        if name.isidentifier():
            self.assign_name(name, span)
            return
        self.findings.assigns_any = self.findings.makes_lists = True
        self.findings.evaluated(_EVALUATES, span, runs=holds_substitution(name))

    def quoted_descriptors(self, words: Sequence[Node], redirections: Sequence[Node]) -> None:
        """Notes quoted subscripts. Facts about shfmt: of `{a['x']}>file`, it takes `{a['x']}` for an
        argument."""
        ends = {node["Pos"]["Offset"] for node in redirections if "N" not in node}
        for word in words:
            written = self.source.written(word) if word["End"]["Offset"] in ends else ""
            if written[:1] == "{" and written[-1] == "}" and "[" in written:
                self.findings.assigns_any = True
                self.findings.evaluated(_EVALUATES, self.source.span(word), runs=True)

    def here_text(self, node: Node, places: Places) -> Word:
        if node["Op"] == "<<<":
            self.visit_word(node["Word"], places)
            return read_word(node["Word"], self.scope)
        body = node["Hdoc"]["Parts"] if "Hdoc" in node else ()
        if is_quoted(node["Word"]):
            self.note_quoted(body)
        else:
            self.visit_quoted_parts(body, places)
        return read_here_document(node, self.scope)


def _is_descriptor(word: Word) -> bool:
    text = word.literal
    return text is not None and (text == "-" or text.removesuffix("-").isdigit())
