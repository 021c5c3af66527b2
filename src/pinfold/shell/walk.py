"""A syntax tree to the raw simple commands it may start, in order, each with where it may run.

This module knows every kind of node that mvdan/sh makes of bash. A kind, or a field, that it does not know
raises `UnknownNode`: the line then counts as not parsed. It does not know what programs do, nor the shell's
own commands beyond the directory they leave behind (`builtins`).

INVARIANT: every word of every node is read by `_visit_word`, so no substitution is passed over.
"""

from collections.abc import Sequence
from typing import Any

from pinfold.model.script import Assignment, Command, Redirection, Text, Word
from pinfold.model.text import Span
from pinfold.shell.arithmetic import COMPARES_NUMBERS, is_constant, is_number, is_plain_subscript, leaves
from pinfold.shell.directories import After, after_command, anywhere, stays, unite
from pinfold.shell.findings import Findings, Places
from pinfold.shell.source import Source
from pinfold.shell.words import Scope, UnknownNode, read_here_document, read_word, read_words

Node = dict[str, Any]

_WRITES = frozenset((">", ">>", ">|", "<>", "&>", "&>>", ">&"))
_READS = frozenset(("<", "<>"))
_HERE = frozenset(("<<", "<<-", "<<<"))
_IN_MANY_ENVIRONMENTS = frozenset(
    ("PATH", "HOME", "SHELL", "USER", "LANG", "TERM", "PWD", "TMPDIR", "EDITOR", "VISUAL", "PAGER",
     "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "NODE_PATH", "GIT_EDITOR", "BROWSER")
)  # fmt: skip
"""Assigning one of these needs no `export` to reach programs: it usually is in the environment already."""
_STMT_FIELDS = frozenset(
    ("Pos", "End", "Comments", "Cmd", "Position", "Semicolon", "Negated", "Background", "Redirs")
)
_INVISIBLE = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff")


def walk(tree: Node, source: Source, places: Places, via: tuple[str, ...], findings: Findings) -> Places:
    """Adds to `findings` what the tree may start; returns where it leaves the shell."""
    return _Walker(source, via, findings).statements(tree.get("Stmts"), places)


class _Walker:
    def __init__(self, source: Source, via: tuple[str, ...], findings: Findings) -> None:
        self.source = source
        self.via = via
        self.findings = findings
        self.facts = findings.facts
        self.moves = 0
        """How many commands changed the directory so far."""
        self.scope = Scope(source, self.facts.is_assigned)

    # Statements

    def statements(self, stmts: Sequence[Node] | None, places: Places) -> Places:
        for stmt in stmts or ():
            places = self.statement(stmt, places).either
        return places

    def statement(self, stmt: Node, places: Places) -> After:
        strange = stmt.keys() - _STMT_FIELDS
        if strange:
            raise UnknownNode(f"an unknown kind of statement: {min(strange)}")
        redirections = tuple(r for node in stmt.get("Redirs", ()) for r in self.redirect(node, places))
        command = stmt.get("Cmd")
        if command is None:
            self.emit((), stmt, places, redirections=redirections)
            after = stays(places)
        elif command["Type"] == "CallExpr":
            after = self.call(command, stmt, redirections, places)
        elif command["Type"] == "DeclClause":
            after = self.declare(command, stmt, redirections, places)
        else:
            if redirections:
                self.emit((), stmt, places, redirections=redirections)
            after = self.compound(command, places)
        if stmt.get("Background"):
            return stays(places)
        return After(after.bad, after.ok) if stmt.get("Negated") else after

    def compound(self, node: Node, places: Places) -> After:
        match node["Type"]:
            case "BinaryCmd":
                return self.binary(node, places)
            case "IfClause":
                return stays(self.if_clause(node, places))
            case "WhileClause":
                return stays(self.loop([*node.get("Cond", ()), *node.get("Do", ())], places))
            case "ForClause":
                self.loop_head(node["Loop"], places)
                return stays(self.loop(node.get("Do", ()), places))
            case "CaseClause":
                return stays(self.case(node, places))
            case "Block":
                return self.block(node.get("Stmts", ()), places)
            case "Subshell":
                self.statements(node.get("Stmts"), places)
            case "FuncDecl":
                self.function(node, places)
            case "TimeClause" | "CoprocClause":
                return self.prefixed(node, places)
            case "ArithmCmd":
                self.arithmetic(node.get("X"), node, places)
            case "LetClause":
                for expression in node["Exprs"]:
                    self.arithmetic(expression, node, places)
                self.findings.unknown("`let` evaluates text as arithmetic", self.source.span(node))
            case "TestClause":
                self.test(node["X"], places)
            case kind:
                raise UnknownNode(f"an unknown kind of command: {kind}")
        return stays(places)

    def block(self, stmts: Sequence[Node], places: Places) -> After:
        """A group's success is its last statement's."""
        if not stmts:
            return stays(places)
        return self.statement(stmts[-1], self.statements(stmts[:-1], places))

    def binary(self, node: Node, places: Places) -> After:
        match node["Op"]:
            case "&&":
                left = self.statement(node["X"], places)
                right = self.statement(node["Y"], left.ok)
                return After(right.ok, unite(left.bad, right.bad))
            case "||":
                left = self.statement(node["X"], places)
                right = self.statement(node["Y"], left.bad)
                return After(unite(left.ok, right.ok), right.bad)
            case "|" | "|&":
                self.statement(node["X"], places)
                self.statement(node["Y"], places)
                return stays(places)
            case op:
                raise UnknownNode(f"an unknown operator: {op}")

    def if_clause(self, node: Node, places: Places) -> Places:
        """`else` is an IfClause without a condition."""
        condition = self.block(node.get("Cond", ()), places)
        then = self.statements(node.get("Then"), condition.ok)
        if "Else" not in node:
            return unite(then, condition.bad) if node.get("Cond") else then
        return unite(then, self.if_clause(node["Else"], condition.bad))

    def loop(self, stmts: Sequence[Node], places: Places) -> Places:
        """A loop that moves is in another place on each turn."""
        mark, moves = len(self.findings.commands), self.moves
        after = unite(places, self.statements(stmts, places))
        if self.moves == moves:
            return after
        # A `break` may also have left it anywhere on the way.
        del self.findings.commands[mark:]
        self.statements(stmts, None)
        return None

    def loop_head(self, loop: Node, places: Places) -> None:
        match loop["Type"]:
            case "WordIter":
                self.assign_name(loop["Name"]["Value"])
                for item in loop.get("Items", ()):
                    self.visit_word(item, places)
            case "CStyleLoop":
                for field in ("Init", "Cond", "Post"):
                    self.arithmetic(loop.get(field), loop, places)
            case kind:
                raise UnknownNode(f"an unknown kind of loop: {kind}")

    def case(self, node: Node, places: Places) -> Places:
        self.visit_word(node["Word"], places)
        before = after = places
        for item in node.get("Items", ()):
            for pattern in item["Patterns"]:
                self.visit_word(pattern, places)
            # `;&` falls into the next body, so each may begin where another ended.
            after = unite(after, self.statements(item.get("Stmts"), unite(before, after)))
        return after

    def function(self, node: Node, places: Places) -> None:
        if "Name" not in node:
            raise UnknownNode("an unknown kind of function")
        name = node["Name"]["Value"]
        self.findings.defined.add(name)
        if name == "command_not_found_handle":
            self.findings.unknown(f"`{name}` runs for unknown programs", self.source.span(node), runs=True)
        self.statement(node["Body"], anywhere(self.facts, places))

    def prefixed(self, node: Node, places: Places) -> After:
        if "Name" in node:
            self.visit_word(node["Name"], places)
            self.assign_word(read_word(node["Name"], self.scope))
        if "Stmt" not in node:
            return stays(places)
        after = self.statement(node["Stmt"], places)
        return after if node["Type"] == "TimeClause" else stays(places)

    # Simple commands

    def call(self, node: Node, stmt: Node, redirections: tuple[Redirection, ...], places: Places) -> After:
        arguments = node.get("Args", ())
        assignments = [self.assignment(a, places, bool(arguments)) for a in node.get("Assigns", ())]
        words: list[Word] = []
        for argument in arguments:
            self.visit_word(argument, places)
            words.extend(read_words(argument, self.scope))
        if arguments and not words:
            self.findings.unknown("the program's name is empty", self.source.span(node), runs=True)
        self.emit(words, stmt, places, redirections=redirections, assignments=assignments)
        after = after_command(words, places, self.facts)
        self.moves += after.ok not in (places, ())
        return after

    def declare(self, node: Node, stmt: Node, redirections: tuple[Redirection, ...], places: Places) -> After:
        variant = node["Variant"]
        name = variant["Value"]
        words = [Word(name, self.source.span(variant), (Text(name),))]
        assignments: list[Assignment] = []
        exported = name == "export" or any(self.is_export_option(a) for a in node.get("Args", ()))
        for argument in node.get("Args", ()):
            if "Name" in argument:
                assignments.append(self.assignment(argument, places, exported))
                words.append(self.assignment_word(argument))
            else:
                self.visit_word(argument["Value"], places)
                words.extend(read_words(argument["Value"], self.scope))
        self.emit(words, stmt, places, redirections=redirections, assignments=assignments)
        return stays(places)

    def is_export_option(self, argument: Node) -> bool:
        if "Name" in argument:
            return False
        text = read_word(argument["Value"], self.scope).start
        return text.startswith("-") and "x" in text

    def assignment(self, node: Node, places: Places, exported: bool) -> Assignment:
        name = node["Name"]["Value"]
        span = self.source.span(node)
        self.assign_name(name)
        if exported:
            self.findings.exported.add(name)
        exported = (
            exported or self.facts.exports_all or name in self.facts.exported or name in _IN_MANY_ENVIRONMENTS
        )
        if "Index" in node:
            self.subscript(node["Index"], node, places)
        if "Array" in node:
            self.array(node["Array"], places)
        if "Value" not in node:
            return Assignment(name, span, None, exported)
        self.visit_word(node["Value"], places)
        return Assignment(name, span, read_word(node["Value"], self.scope, assigns=True), exported)

    def assignment_word(self, node: Node) -> Word:
        name = node["Name"]["Value"]
        start = name if node.get("Naked") else name + ("+=" if node.get("Append") else "=")
        value = read_word(node.get("Value"), self.scope, assigns=True)
        return Word(self.source.written(node), self.source.span(node), (Text(start), *value.parts))

    def array(self, node: Node, places: Places) -> None:
        for element in node.get("Elems", ()):
            if "Index" in element:
                self.subscript(element["Index"], element, places)
            if "Value" in element:
                self.visit_word(element["Value"], places)

    def emit(
        self,
        words: Sequence[Word],
        stmt: Node,
        places: Places,
        *,
        redirections: tuple[Redirection, ...] = (),
        assignments: Sequence[Assignment] = (),
    ) -> None:
        place = self.extent(stmt)
        command = Command(
            words=tuple(words),
            span=self.source.within or place,
            text=self.source.text[place.start : place.end],
            assignments=tuple(assignments),
            redirections=redirections,
            # Code that we think is never reached may be reached where we are wrong: anywhere.
            directories=places if places != () else None,
            via=self.via,
        )
        self.findings.commands.append(command)

    def extent(self, stmt: Node) -> Span:
        """A statement without its `;` and without the bodies of its here-documents."""
        command = stmt.get("Cmd")
        redirects = stmt.get("Redirs", ())
        if command is not None and command["Type"] not in ("CallExpr", "DeclClause"):
            return self.source.between(
                redirects[0]["Pos"]["Offset"], max(r["Word"]["End"]["Offset"] for r in redirects)
            )
        ends = [r["Word"]["End"]["Offset"] for r in redirects]
        starts = [r["Pos"]["Offset"] for r in redirects]
        if command is not None:
            ends.append(command["End"]["Offset"])
            starts.append(command["Pos"]["Offset"])
        return self.source.between(min(starts), max(ends))

    # Redirections

    def redirect(self, node: Node, places: Places) -> list[Redirection]:
        op = node["Op"]
        span = self.source.span(node["Word"])
        if "N" in node and node["N"]["Value"].startswith("{"):
            self.assign_name(node["N"]["Value"][1:-1])
        if op in _HERE:
            return [Redirection(op, self.here_text(node, places), span, writes=False, reads=False)]
        if op not in _WRITES and op not in _READS and op != "<&":
            raise UnknownNode(f"an unknown redirection: {op}")
        self.visit_word(node["Word"], places)
        words = read_words(node["Word"], self.scope)
        if op == "<" and all((w.literal or "x").strip("0123456789") == "-" for w in words):
            self.findings.unknown("means something else in zsh", span)
        found: list[Redirection] = []
        for word in words:
            if op in ("<&", ">&") and _is_descriptor(word):
                continue
            if word.start.startswith(("/dev/tcp/", "/dev/udp/")):
                self.findings.unknown("opens a network connection", span)
            writes = op in _WRITES
            found.append(Redirection(op, word, span, writes=writes, reads=op in _READS))
        return found

    def here_text(self, node: Node, places: Places) -> Word:
        if node["Op"] == "<<<":
            self.visit_word(node["Word"], places)
            return read_word(node["Word"], self.scope)
        if "Hdoc" in node:
            self.visit_parts(node["Hdoc"]["Parts"], places)
        return read_here_document(node, self.scope)

    # Words and what hides in them

    def visit_word(self, word: Node, places: Places) -> None:
        parts = word["Parts"]
        if parts[0]["Type"] == "Lit" and parts[0]["Value"][0] == "=" and parts[0]["Value"] not in ("=", "=="):
            self.findings.unknown("means something else in zsh", self.source.span(word))
        for part in parts:
            if part["Type"] == "Lit" and _has_control_character(part["Value"]):
                self.findings.unknown("control character", self.source.span(part))
        self.visit_parts(parts, places)

    def visit_parts(self, parts: Sequence[Node], places: Places) -> None:
        for part in parts:
            match part["Type"]:
                case "Lit" | "SglQuoted":
                    pass
                case "DblQuoted":
                    self.visit_parts(part.get("Parts", ()), places)
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

    def substitution(self, part: Node, places: Places) -> None:
        self.statements(part.get("Stmts"), places)
        if part.get("TempFile") or part.get("ReplyVar"):
            # `${ cmd; }` runs in this very shell, and older shells do not know it.
            self.findings.unknown("`${ ...; }` runs in the shell itself", self.source.span(part), runs=True)

    def pattern_group(self, part: Node) -> None:
        """Facts about shfmt: what stands in `@(...)` is not parsed. bash expands it."""
        self.findings.unknown("means something else in zsh", self.source.span(part))
        if set(part["Pattern"]["Value"]) & set("$`<>"):
            self.findings.unknown("an expansion inside a pattern", self.source.span(part), runs=True)

    def parameter(self, part: Node, places: Places) -> None:
        span = self.source.span(part)
        strange = part.keys() - _PARAMETER_FIELDS
        if strange:
            raise UnknownNode(f"an unknown kind of expansion: {min(strange)}")
        if part.get("Excl") and not part.get("Names") and not _lists_keys(part):
            self.findings.unknown("`${!name}` expands what another variable names", span)
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
            self.assign_name(part["Param"]["Value"])

    def subscript(self, index: Node, where: Node, places: Places) -> None:
        if is_plain_subscript(index):
            return
        for word in leaves(index):
            self.visit_parts(word["Parts"], places)
        self.findings.unknown("a subscript is evaluated as arithmetic", self.source.span(where))

    def arithmetic(self, node: Node | None, where: Node, places: Places) -> None:
        if node is None or is_constant(node):
            return
        for word in leaves(node):
            self.visit_parts(word["Parts"], places)
            if not is_number(word):
                self.assign_word(read_word(word, self.scope))
        self.findings.unknown("names in arithmetic are evaluated again", self.source.span(where))

    def test(self, node: Node, places: Places) -> None:
        match node["Type"]:
            case "Word":
                self.visit_word(node, places)
            case "ParenTest":
                self.test(node["X"], places)
            case "UnaryTest":
                self.test(node["X"], places)
                if node["Op"] in ("-v", "-R"):
                    self.findings.unknown(f"`{node['Op']}` evaluates a subscript", self.source.span(node))
            case "BinaryTest":
                self.test(node["X"], places)
                self.test(node["Y"], places)
                if node["Op"] in COMPARES_NUMBERS and not (is_number(node["X"]) and is_number(node["Y"])):
                    why = f"`{node['Op']}` evaluates its operands as arithmetic"
                    self.findings.unknown(why, self.source.span(node))
            case kind:
                raise UnknownNode(f"an unknown kind of test: {kind}")

    # Names the line gives values to

    def assign_name(self, name: str) -> None:
        if not name.isidentifier():
            self.findings.assigns_any = True
        self.findings.assigned.add(name)

    def assign_word(self, word: Word) -> None:
        """A word that may name a variable: in arithmetic, `x` may stand left of a `=`."""
        if word.literal is None:
            self.findings.assigns_any = True
        elif word.literal:
            self.assign_name(word.literal)


_PARAMETER_FIELDS = frozenset(
    ("Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Excl", "Length", "Param", "Index", "Slice", "Repl",
     "Names", "Exp")
)  # fmt: skip


def _lists_keys(part: Node) -> bool:
    """`${!a[@]}` lists the keys of an array."""
    index = part.get("Index") or {}
    return any(piece.get("Value") in ("@", "*") for piece in index.get("Parts", ()))


def _is_descriptor(word: Word) -> bool:
    text = word.literal
    return text is not None and (text == "-" or text.removesuffix("-").isdigit())


def _has_control_character(text: str) -> bool:
    if text.isascii() and text.isprintable():
        return False
    return any(c == "\x7f" or c in _INVISIBLE or not c.isprintable() for c in text)
