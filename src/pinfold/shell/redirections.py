"""Redirections of the tree: where bash reads and writes, and what it expands or evaluates on the way.

This module decides what a redirection gives a command to read, which file it writes, and which variable gets
the number of a descriptor. Whose redirections they are is `walk`'s business.
"""

from collections.abc import Sequence

from pinfold.model.locations import Span
from pinfold.model.script import Redirection, Word
from pinfold.shell.expansions import ExpansionVisitor, Node
from pinfold.shell.here_documents import is_quoted, read_here_document
from pinfold.shell.literals import holds_substitution
from pinfold.shell.results import Places
from pinfold.shell.stdin import HERE, is_of_standard_input
from pinfold.shell.words import UnknownNode, read_word, read_words

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
            self.findings.unknown("means something else in zsh", span)
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
        """`{name}>file` gives the variable a descriptor. Of `{a[x]}>file`, bash evaluates the subscript."""
        if name.isidentifier():
            self.assign_name(name, span)
            return
        self.findings.assigns_any = self.findings.makes_lists = True
        self.findings.evaluated(_EVALUATES, span, runs=holds_substitution(name))

    def quoted_descriptors(self, words: Sequence[Node], redirections: Sequence[Node]) -> None:
        """Facts about shfmt: in `{a['x']}>file`, it takes what stands before the sign for an argument."""
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
