"""What hides in words: substitutions, which are walked, and expansions that evaluate text again.

Only the shell knows the value of such an expansion. This module decides whether the shell may run something
while it expands, and which arithmetic runs text hidden in a value. `words` decides a word's own value.

Facts about bash: wherever it expects a number, it looks up a name and evaluates its value again as an
expression; it expands a subscript in that. So `x='a[$(cmd)]'; echo $((x))` runs cmd, and so do
`[[ $x -eq 0 ]]`, `${a[$x]}`, `${s:$x}`, `let`, `declare -i`. Only constants are certainly harmless.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from pinfold.model.escape_text import first_invisible
from pinfold.model.script import Word
from pinfold.model.text_positions import Span
from pinfold.shell.findings import Findings, Places
from pinfold.shell.quotes import undo_ansi_c
from pinfold.shell.tree_text import (
    Node,
    SourceText,
    commands_in,
    quoted_substitutions,
    still_expands,
    value_of,
)
from pinfold.shell.variables import note_assigned
from pinfold.shell.words import Scope, UnknownNode, read_word

_KINDS = {
    "BinaryArithm": ("X", "Y"),
    "UnaryArithm": ("X",),
    "ParenArithm": ("X",),
}
COMPARES_NUMBERS = frozenset(("-eq", "-ne", "-le", "-ge", "-lt", "-gt"))


def leaves(node: Node | None) -> Iterator[Node]:
    """The words that are the leaves of an expression."""
    if node is None:
        return
    kind = node["Type"]
    if kind == "Word":
        yield node
    elif kind in _KINDS:
        for field in _KINDS[kind]:
            yield from leaves(node[field])
    else:
        raise UnknownNode(f"an unknown kind of arithmetic: {kind}")


def is_number(word: Node) -> bool:
    parts = word["Parts"]
    if len(parts) == 1 and parts[0]["Type"] == "DblQuoted":
        parts = parts[0].get("Parts", ())
    if len(parts) != 1 or parts[0]["Type"] not in ("Lit", "SglQuoted"):
        return False
    value = parts[0].get("Value", "")
    digits = value[1:] if value[:1] in ("-", "+") else value
    return bool(digits) and digits.isascii() and (digits.isdigit() or _is_hexadecimal(digits))


def _is_hexadecimal(text: str) -> bool:
    return text[:2] in ("0x", "0X") and len(text) > 2 and all(c in "0123456789abcdefABCDEF" for c in text[2:])


def is_constant(node: Node | None) -> bool:
    return all(is_number(word) for word in leaves(node))


def is_plain_subscript(node: Node) -> bool:
    """Whether a subscript is `[3]`, `[@]` or `[*]`: bash evaluates nothing in it."""
    if node["Type"] == "Word" and len(node["Parts"]) == 1 and node["Parts"][0].get("Value") in ("@", "*"):
        return True
    return is_constant(node)


_PARAMETER_FIELDS = frozenset(
    ("Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Excl", "Length", "Param", "Index", "Slice", "Repl",
     "Names", "Exp")
)  # fmt: skip


_HARMLESS_OPERAND = r"[^$`'\"\\{}<>]*"
_HARMLESS_PATTERN = r"[\w\t ./,:+=@%-]*"
_NOTHING = frozenset(("", "''", '""', "$''", '$""'))

_QUALIFIER_THAT_RUNS = r"""[\\'"\s]|e[^\w|.*?)\]-]|\+[A-Za-z_]"""
"""Finds zsh qualifiers that run something: `e` with a sign that ends the text, or quotes and blanks as a text
of several words needs them; or `+name`."""


def _require_one_reading(parts: Sequence[Node]) -> None:
    """Raises `UnknownNode` where shells read a quote inside of a quoted expansion differently.

    Facts about shells: in `${x:-'}` inside of double quotes or a here-document, dash, bash in its POSIX
    mode, and bash in here-documents take the quote literally: the expansion ends there, and they expand the
    text between two quotes. shfmt looks for the other quote, and so does bash elsewhere.
    """
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


def _extent(parts: Sequence[Node]) -> tuple[int, int]:
    return parts[0]["Pos"]["Offset"], parts[-1]["End"]["Offset"]


def _lists_keys(part: Node) -> bool:
    """`${!a[@]}` lists the keys of an array."""
    index = part.get("Index") or {}
    return any(piece.get("Value") in ("@", "*") for piece in index.get("Parts", ()))


class ExpansionVisitor(ABC):
    """Visits every part of a word. A subclass walks the statements in it (`statements`)."""

    def __init__(self, source: SourceText, findings: Findings) -> None:
        self.source = source
        self.findings = findings
        self.is_read_again = ""
        """Inside of `read_again`: which values of `$'...'` are harmless, as a regular expression."""
        self.loops: list[str] = []
        """The variables of the loops around the visited node that are never empty there."""
        self.scope = Scope(source, findings.facts.is_assigned, self.is_filled, findings.facts.defined)

    def is_filled(self, name: str) -> bool:
        return name in self.loops and self.findings.facts.is_filled_by_its_loop(name)

    @abstractmethod
    def statements(self, stmts: Sequence[Node] | None, places: Places) -> Places: ...

    def visit_word(self, word: Node, places: Places) -> None:
        parts = word["Parts"]
        first = value_of(parts[0]) if parts[0]["Type"] == "Lit" else ""
        if first.startswith("=") and first not in ("=", "=="):
            self.findings.unknown("has another meaning in zsh", self.source.span(word))
        for part in parts:
            if part["Type"] == "Lit" and first_invisible(value_of(part)):
                self.findings.unknown("control character", self.source.span(part))
        self.visit_parts(parts, places)

    def visit_parts(self, parts: Sequence[Node], places: Places, *, quoted: bool = False) -> None:
        self.note_quoted(parts)
        for part in parts:
            match part["Type"]:
                case "Lit":
                    self.literal(part, places, quoted=quoted)
                case "SglQuoted":
                    self.require_value(part, "Value")
                    self.require_one_value(part)
                case "DblQuoted":
                    self.require_value(part, "Parts")
                    self.visit_quoted_parts(part.get("Parts", ()), places)
                case "CmdSubst" | "ProcSubst":
                    self.substitution(part, places)
                case "ParamExp":
                    self.parameter(part, places)
                case "ArithmExp":
                    self.arithmetic(part["X"], part, places)
                case "ExtGlob":
                    self.pattern_group(part)
                case kind:
                    raise UnknownNode(f"an unknown kind of word: {kind}")

    def visit_quoted_parts(self, parts: Sequence[Node], places: Places) -> None:
        """Visits the parts of a double-quoted text or of a here-document."""
        _require_one_reading(parts)
        self.visit_parts(parts, places, quoted=True)

    def require_value(self, part: Node, field: str) -> None:
        """Raises `UnknownNode` where a part has no value, though the text has one.

        Facts about shfmt: it leaves the value out where the text holds nothing but continued lines.
        """
        if field not in part and self.source.written(part).replace("\\\n", "") not in _NOTHING:
            raise UnknownNode("text without a value")

    def require_one_value(self, part: Node) -> None:
        """Notes a `$'...'` that bash may expand twice.

        Facts about bash 5.2: `"$(: ${x:-$'$(cmd)'})"` and `"$([[ x =~ (a$'$(cmd)') ]])"` start `cmd`: bash
        replaces the quotes by their unquoted value, and then reads that again.
        """
        if not (self.is_read_again and part.get("Dollar")):
            return
        value = undo_ansi_c(value_of(part))
        if value is None or not re.fullmatch(self.is_read_again, value):
            why = "a quoted text that bash may unquote and expand again"
            self.findings.unknown(why, self.source.span(part), runs=True)

    @contextmanager
    def read_again(self, harmless: str) -> Iterator[None]:
        """Marks the visited text as one that bash may read a second time, without some of its quotes."""
        before, self.is_read_again = self.is_read_again, harmless
        try:
            yield
        finally:
            self.is_read_again = before

    def literal(self, part: Node, places: Places, *, quoted: bool) -> None:
        self.require_value(part, "Value")
        if not still_expands(value_of(part), quoted=quoted):
            return
        place, span = self.source.place(part), self.source.span(part)
        self.findings.unknown("an expansion that the parser takes for text", span, runs=True)
        # The literal does not hold the quoted parts of such a command.
        for command in commands_in(self.source.text[place.start :]):
            self.findings.hidden.append((command, span, places))

    def note_quoted(self, parts: Sequence[Node]) -> None:
        for text in quoted_substitutions(parts):
            self.findings.quotes_substitution = True
            span = self.source.in_the_line(self.source.between(*_extent(parts)))
            self.findings.quoted += [(command, span) for command in commands_in(text)]

    def substitution(self, part: Node, places: Places) -> None:
        self.statements(part.get("Stmts"), places)
        if part.get("TempFile") or part.get("ReplyVar"):
            # `${ cmd; }` runs in this very shell, and older shells do not know it.
            self.findings.unknown("`${ ...; }` runs in the shell itself", self.source.span(part), runs=True)

    def pattern_group(self, part: Node) -> None:
        """Notes what shells may run in a pattern group.

        Facts about shfmt: it does not parse the text in `@(...)`. bash expands it.

        Facts about zsh: after a pattern, `(e:text:)` and `(+name)` run something for each file found.
        """
        self.findings.unknown("has another meaning in zsh", self.source.span(part))
        text = part["Pattern"]["Value"]
        if re.search(_QUALIFIER_THAT_RUNS, text):
            self.findings.unknown("zsh may run text in a pattern", self.source.span(part), runs=True)
        if set(text) & set("$`<>"):
            self.findings.unknown("an expansion inside a pattern", self.source.span(part), runs=True)

    def parameter(self, part: Node, places: Places) -> None:
        span = self.source.span(part)
        strange = part.keys() - _PARAMETER_FIELDS
        if strange or "Param" not in part:
            raise UnknownNode(f"an unknown kind of expansion: {min(strange, default='no parameter')}")
        if part.get("Excl") and not part.get("Names") and not _lists_keys(part):
            self.findings.evaluated("`${!name}` expands a variable that another variable names", span)
        if "Index" in part:
            self.subscript(part["Index"], part, places)
        for field in ("Offset", "Length"):
            self.arithmetic((part.get("Slice") or {}).get(field), part, places)
        with self.read_again(_HARMLESS_OPERAND):
            for field in ("Orig", "With"):
                word = (part.get("Repl") or {}).get(field)
                if word:
                    self.visit_parts(word["Parts"], places)
            self.parameter_operation(part, span, places)

    def parameter_operation(self, part: Node, span: Span, places: Places) -> None:
        if "Exp" not in part:
            return
        operation = part["Exp"]
        word = operation.get("Word")
        if word:
            self.visit_parts(word["Parts"], places)
        if operation["Op"] == "@":
            letter = value_of(word["Parts"][0]) if word else ""
            if letter not in ("Q", "U", "u", "L", "E", "k", "K", "a", "A"):
                self.findings.unknown("`${name@P}` expands the value again", span, runs=True)
        if operation["Op"] in ("=", ":="):
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
                with self.read_again(_HARMLESS_PATTERN) if node["Op"] == "=~" else nullcontext():
                    self.test(node["Y"], places)
                if node["Op"] in COMPARES_NUMBERS and not (is_number(node["X"]) and is_number(node["Y"])):
                    why = f"`{node['Op']}` evaluates its operands as arithmetic"
                    self.findings.evaluated(why, self.source.span(node))
            case kind:
                raise UnknownNode(f"an unknown kind of test: {kind}")

    # Names the line gives values to

    def assign_name(self, name: str, span: Span) -> None:
        if not name.isidentifier():
            self.findings.assigns_any = self.findings.makes_lists = True
        note_assigned(name, span, self.findings)

    def assign_word(self, word: Word) -> None:
        """Notes a word that may name a variable: in arithmetic, `x` may be left of a `=`."""
        if word.literal is None:
            self.findings.assigns_any = True
        elif word.literal:
            self.findings.assigns_any |= not word.literal.isidentifier()
            note_assigned(word.literal, word.span, self.findings)
