"""What hides in words: substitutions, which are walked, and expansions that evaluate text again.

Only the shell knows what such an expansion comes to; here it is decided whether it may run something on the
way. What a word's own value is, is `words`' business.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pinfold.model.script import Word
from pinfold.model.text import Span
from pinfold.model.visible import first_invisible
from pinfold.shell.arithmetic import COMPARES_NUMBERS, is_constant, is_number, is_plain_subscript, leaves
from pinfold.shell.findings import Findings, Places
from pinfold.shell.quotes import undo_ansi_c
from pinfold.shell.source import Source
from pinfold.shell.variables import note_assigned
from pinfold.shell.words import Scope, UnknownNode, read_word

Node = dict[str, Any]

_PARAMETER_FIELDS = frozenset(
    ("Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Excl", "Length", "Param", "Index", "Slice", "Repl",
     "Names", "Exp")
)  # fmt: skip


_QUALIFIER_THAT_RUNS = r"""[\\'"\s]|e[^\w|.*?)\]-]|\+[A-Za-z_]"""
"""`e` with a sign that ends the text, or what a text of several words needs; as a name, `+name`."""
_SUBSTITUTIONS = ("$(", "`", "<(", ">(", *("${" + after for after in " \t\n\r\f\v|"))


def _quotes_substitution(part: Node) -> bool:
    text = part.get("Value", "")
    value = undo_ansi_c(text) if part.get("Dollar") else text.replace("\\", "")
    return value is None or any(opening in value for opening in _SUBSTITUTIONS)


def _require_one_reading(parts: Sequence[Node]) -> None:
    """Facts about shells: in `${x:-'}` inside of double quotes or a here-document, dash, bash in its POSIX
    mode, and bash in here-documents take the quote for itself: the expansion ends there, and what stands
    between two quotes is expanded. shfmt looks for the other quote, and bash elsewhere does so too."""
    for part in parts:
        if part["Type"] != "ParamExp":
            continue
        replaced = part.get("Repl") or {}
        for word in ((part.get("Exp") or {}).get("Word"), replaced.get("Orig"), replaced.get("With")):
            inside = (word or {}).get("Parts", ())
            for inner in inside:
                if inner["Type"] == "SglQuoted" and set(inner.get("Value", "")) & set('}"$`\\'):
                    raise UnknownNode("a quote inside of a quoted expansion")
            _require_one_reading(inside)


def _lists_keys(part: Node) -> bool:
    """`${!a[@]}` lists the keys of an array."""
    index = part.get("Index") or {}
    return any(piece.get("Value") in ("@", "*") for piece in index.get("Parts", ()))


class ExpansionVisitor(ABC):
    """Visits every part of a word; whoever walks statements says how by `statements`."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings
        self.loops: list[str] = []
        """The variables of the loops around what is visited, where they are never empty there."""
        self.scope = Scope(source, findings.facts.is_assigned, self.is_filled, findings.facts.defined)

    def is_filled(self, name: str) -> bool:
        return name in self.loops and self.findings.facts.is_filled_by_its_loop(name)

    @abstractmethod
    def statements(self, stmts: Sequence[Node] | None, places: Places) -> Places: ...

    def visit_word(self, word: Node, places: Places) -> None:
        parts = word["Parts"]
        if parts[0]["Type"] == "Lit" and parts[0]["Value"][0] == "=" and parts[0]["Value"] not in ("=", "=="):
            self.findings.unknown("means something else in zsh", self.source.span(word))
        for part in parts:
            if part["Type"] == "Lit" and first_invisible(part["Value"]):
                self.findings.unknown("control character", self.source.span(part))
        self.visit_parts(parts, places)

    def visit_parts(self, parts: Sequence[Node], places: Places) -> None:
        for part in parts:
            match part["Type"]:
                case "Lit" | "SglQuoted":
                    self.findings.quotes_substitution |= _quotes_substitution(part)
                case "DblQuoted":
                    self.visit_quoted_parts(part.get("Parts", ()), places)
                case "CmdSubst" | "ProcSubst":
                    self.substitution(part, places)
                case "ParamExp":
                    self.parameter(part, places)
                case "ArithmExp":
                    self.arithmetic(part.get("X"), part, places)
                case "ExtGlob":
                    self.pattern_group(part)
                case kind:
                    raise UnknownNode(f"an unknown kind of word: {kind}")

    def visit_quoted_parts(self, parts: Sequence[Node], places: Places) -> None:
        """The parts of what stands in double quotes, or of a here-document."""
        _require_one_reading(parts)
        self.visit_parts(parts, places)

    def substitution(self, part: Node, places: Places) -> None:
        self.statements(part.get("Stmts"), places)
        if part.get("TempFile") or part.get("ReplyVar"):
            # `${ cmd; }` runs in this very shell, and older shells do not know it.
            self.findings.unknown("`${ ...; }` runs in the shell itself", self.source.span(part), runs=True)

    def pattern_group(self, part: Node) -> None:
        """Facts about shfmt: what stands in `@(...)` is not parsed. bash expands it.

        Facts about zsh: after a pattern, `(e:text:)` and `(+name)` run something for each file that is found.
        """
        self.findings.unknown("means something else in zsh", self.source.span(part))
        text = part["Pattern"]["Value"]
        if re.search(_QUALIFIER_THAT_RUNS, text):
            self.findings.unknown("zsh may run what stands in a pattern", self.source.span(part), runs=True)
        if set(text) & set("$`<>"):
            self.findings.unknown("an expansion inside a pattern", self.source.span(part), runs=True)

    def parameter(self, part: Node, places: Places) -> None:
        span = self.source.span(part)
        strange = part.keys() - _PARAMETER_FIELDS
        if strange:
            raise UnknownNode(f"an unknown kind of expansion: {min(strange)}")
        if part.get("Excl") and not part.get("Names") and not _lists_keys(part):
            self.findings.evaluated("`${!name}` expands what another variable names", span)
        if "Index" in part:
            self.subscript(part["Index"], part, places)
        for field in ("Offset", "Length"):
            self.arithmetic((part.get("Slice") or {}).get(field), part, places)
        for field in ("Orig", "With"):
            word = (part.get("Repl") or {}).get(field)
            if word:
                self.visit_parts(word["Parts"], places)
        self.parameter_operation(part, span, places)

    def parameter_operation(self, part: Node, span: Span, places: Places) -> None:
        operation = part.get("Exp") or {}
        word = operation.get("Word")
        if word:
            self.visit_parts(word["Parts"], places)
        if operation.get("Op") == "@":
            letter = word["Parts"][0].get("Value", "") if word else ""
            if letter not in ("Q", "U", "u", "L", "E", "k", "K", "a", "A"):
                self.findings.unknown("`${name@P}` expands the value again", span, runs=True)
        if operation.get("Op") in ("=", ":="):
            self.assign_name(part["Param"]["Value"], span)

    def subscript(self, index: Node, where: Node, places: Places) -> None:
        if is_plain_subscript(index):
            return
        for word in leaves(index):
            self.visit_parts(word["Parts"], places)
        self.findings.evaluated("a subscript is evaluated as arithmetic", self.source.span(where))

    def arithmetic(self, node: Node | None, where: Node, places: Places) -> None:
        if node is None or is_constant(node):
            return
        for word in leaves(node):
            self.visit_parts(word["Parts"], places)
            if not is_number(word):
                self.assign_word(read_word(word, self.scope))
        self.findings.evaluated("names in arithmetic are evaluated again", self.source.span(where))

    def test(self, node: Node, places: Places) -> None:
        match node["Type"]:
            case "Word":
                self.visit_word(node, places)
            case "ParenTest":
                self.test(node["X"], places)
            case "UnaryTest":
                self.test(node["X"], places)
                if node["Op"] in ("-v", "-R"):
                    self.findings.evaluated(f"`{node['Op']}` evaluates a subscript", self.source.span(node))
            case "BinaryTest":
                self.test(node["X"], places)
                self.test(node["Y"], places)
                if node["Op"] in COMPARES_NUMBERS and not (is_number(node["X"]) and is_number(node["Y"])):
                    why = f"`{node['Op']}` evaluates its operands as arithmetic"
                    self.findings.evaluated(why, self.source.span(node))
            case kind:
                raise UnknownNode(f"an unknown kind of test: {kind}")

    # Names the line gives values to

    def assign_name(self, name: str, span: Span) -> None:
        if not name.isidentifier():
            self.findings.assigns_any = True
        note_assigned(name, span, self.findings)

    def assign_word(self, word: Word) -> None:
        """A word that may name a variable: in arithmetic, `x` may stand left of a `=`."""
        if word.literal is None:
            self.findings.assigns_any = True
        elif word.literal:
            self.findings.assigns_any |= not word.literal.isidentifier()
            note_assigned(word.literal, word.span, self.findings)
