"""A syntax tree to the raw simple commands it may start, in order, each with where it may run.

This module knows every kind of node that mvdan/sh makes of bash. A kind, or a field, that it does not know
raises `UnknownNode`: the line then counts as not parsed, and the walk still finds what other statements
start. It does not know what programs do, nor what the shell's own commands do (`builtins`), except how they
change the directory (`cd_tracking`).

INVARIANT: `expansions.visit_word` gets every word of every node, so the walk misses no substitution.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from pinfold.model.script import Assignment, Command, Redirection, Text, Word
from pinfold.model.text_positions import Span
from pinfold.shell.cd_tracking import After, after_command, anywhere, stays, unite
from pinfold.shell.findings import Findings, Places
from pinfold.shell.redirections import RedirectionVisitor
from pinfold.shell.stdin import fed_from, piped, unknown_text
from pinfold.shell.tree_text import Node, SourceText
from pinfold.shell.variables import IN_MANY_ENVIRONMENTS, appended, default, keeps, note_assigned
from pinfold.shell.words import UnknownNode, read_word, read_words

_NAMED = frozenset(
    ("Block", "Subshell", "IfClause", "WhileClause", "ForClause", "CaseClause", "ArithmCmd", "TestClause")
)
"""Commands that may follow the name of a coprocess."""
_STMT_FIELDS = frozenset(
    ("Pos", "End", "Comments", "Cmd", "Position", "Semicolon", "Negated", "Background", "Redirs")
)


def walk(
    tree: Node,
    source: SourceText,
    places: Places,
    via: tuple[str, ...],
    findings: Findings,
    inputs: tuple[Redirection, ...] = (),
) -> Places:
    """Adds to `findings` what the tree may start, reading `inputs`; returns where it leaves the shell."""
    return _Walker(source, via, findings, inputs).statements(tree.get("Stmts"), places)


class _Walker(RedirectionVisitor):
    def __init__(
        self, source: SourceText, via: tuple[str, ...], findings: Findings, inputs: tuple[Redirection, ...]
    ) -> None:
        super().__init__(source, findings)
        self.via = via
        self.inputs = inputs
        """What commands read at this place, unless they have a redirection of their own."""
        self.facts = findings.facts
        self.called = ""
        """The function whose body the walk is in."""
        self.moves = 0
        """How many commands changed the directory so far."""

    # Statements

    def statements(self, stmts: Sequence[Node] | None, places: Places) -> Places:
        for stmt in stmts or ():
            try:
                places = self.statement(stmt, places).either
            except UnknownNode as node:
                self.findings.unreadable(str(node))
                places = None
            except (KeyError, IndexError, TypeError, AttributeError) as missing:
                self.findings.unreadable(f"an unknown kind of node: {missing}")
                places = None
        return places

    def statement(self, stmt: Node, places: Places) -> After:
        strange = stmt.keys() - _STMT_FIELDS
        if strange:
            raise UnknownNode(f"an unknown kind of statement: {min(strange)}")
        redirections = tuple(r for node in stmt.get("Redirs", ()) for r in self.redirect(node, places))
        command = stmt.get("Cmd")
        if command is None:
            if not redirections:
                raise UnknownNode("a statement without a command")
            self.emit((), stmt, places, redirections=redirections)
            after = stays(places)
        elif command["Type"] == "CallExpr":
            after = self.call(command, stmt, redirections, places)
        elif command["Type"] == "DeclClause":
            after = self.declare(command, stmt, redirections, places)
        else:
            if redirections:
                self.emit((), stmt, places, redirections=redirections)
            with self.reading(_inputs(redirections) or self.inputs):
                after = self.compound(command, places)
        if stmt.get("Background"):
            return stays(places)
        return After(after.bad, after.ok) if stmt.get("Negated") else after

    @contextmanager
    def reading(self, inputs: tuple[Redirection, ...]) -> Iterator[None]:
        """Makes commands inside read `inputs`."""
        before, self.inputs = self.inputs, inputs
        try:
            yield
        finally:
            self.inputs = before

    def reading_a_pipe(self, node: Node) -> AbstractContextManager[None]:
        """Makes commands inside read text that is written while the line runs."""
        return self.reading((piped(unknown_text(self.source.span(node))),))

    def compound(self, node: Node, places: Places) -> After:
        match node["Type"]:
            case "BinaryCmd":
                return self.binary(node, places)
            case "IfClause":
                return stays(self.if_clause(node, places))
            case "WhileClause":
                return stays(self.loop([*node["Cond"], *node["Do"]], places))
            case "ForClause":
                filled = self.loop_head(node["Loop"], places)
                self.loops += filled
                after = stays(self.loop(node["Do"], places))
                del self.loops[len(self.loops) - len(filled) :]
                return after
            case "CaseClause":
                return stays(self.case(node, places))
            case "Block":
                return self.block(node["Stmts"], places)
            case "Subshell":
                self.statements(node["Stmts"], places)
            case "FuncDecl":
                self.function(node, places)
            case "TimeClause" | "CoprocClause":
                return self.prefixed(node, places)
            case "ArithmCmd":
                self.arithmetic(node["X"], node, places)
            case "LetClause":
                for expression in node["Exprs"]:
                    self.arithmetic(expression, node, places)
                self.findings.evaluated("`let` evaluates text as arithmetic", self.source.span(node))
            case "TestClause":
                self.test(node["X"], places)
            case kind:
                raise UnknownNode(f"an unknown kind of command: {kind}")
        return stays(places)

    def block(self, stmts: Sequence[Node], places: Places) -> After:
        """Walks a group, which succeeds if its last statement does."""
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
                with self.reading(self.printed_by(node["X"])):
                    self.statement(node["Y"], places)
                return stays(places)
            case op:
                raise UnknownNode(f"an unknown operator: {op}")

    def printed_by(self, stmt: Node) -> tuple[Redirection, ...]:
        from pinfold.shell.known_output import printed  # most lines have no pipe

        text, files = printed(stmt, self.scope)
        return tuple(map(fed_from, files)) if text is None else (piped(text),)

    def if_clause(self, node: Node, places: Places) -> Places:
        """Walks an `if`. Its `else` is an IfClause without a condition, and no other is."""
        condition = self.block(node["Cond"], places)
        then = self.statements(node["Then"], condition.ok)
        if "Else" not in node:
            return unite(then, condition.bad)
        other = node["Else"]
        if "Cond" in other:
            return unite(then, self.if_clause(other, condition.bad))
        return unite(then, self.statements(other["Then"], condition.bad))

    def loop(self, stmts: Sequence[Node], places: Places) -> Places:
        """Walks the body of a loop, again from anywhere if it changes the directory on each turn."""
        mark, moves = len(self.findings.commands), self.moves
        after = unite(places, self.statements(stmts, places))
        if self.moves == moves:
            return after
        # A `break` may also have left it anywhere on the way.
        del self.findings.commands[mark:]
        self.statements(stmts, None)
        return None

    def loop_head(self, loop: Node, places: Places) -> list[str]:
        """Walks the head of a loop; returns its variable, if that is never empty inside of the loop."""
        match loop["Type"]:
            case "WordIter":
                items = loop.get("Items", ())
                for item in items:
                    self.visit_word(item, places)
                words = [word for item in items for word in read_words(item, self.scope)]
                filled = bool(words) and all(word.emptied({}) for word in words)
                name = loop["Name"]["Value"]
                note_assigned(name, self.source.span(loop["Name"]), self.findings, looped=filled)
                return [name] if filled else []
            case "CStyleLoop":
                for field in ("Init", "Cond", "Post"):
                    self.arithmetic(loop.get(field), loop, places)
                return []
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
        outer, self.called = self.called, name
        with self.reading_a_pipe(node):  # its input is known where it is called
            self.statement(node["Body"], anywhere(self.facts, places))
        self.called = outer

    def prefixed(self, node: Node, places: Places) -> After:
        if "Name" in node:
            # Facts about shfmt: in `coproc q let a=1` it takes `q` for a name. bash starts it.
            if (node["Stmt"].get("Cmd") or {}).get("Type") not in _NAMED:
                raise UnknownNode("a coprocess whose name may be a program")
            self.visit_word(node["Name"], places)
            self.assign_word(read_word(node["Name"], self.scope))
        if node["Type"] == "TimeClause":
            return self.statement(node["Stmt"], places) if "Stmt" in node else stays(places)
        with self.reading_a_pipe(node):
            self.statement(node["Stmt"], places)
        return stays(places)

    def substitution(self, part: Node, places: Places) -> None:
        reads = part["Type"] == "ProcSubst" and part["Op"] == ">("
        with self.reading_a_pipe(part) if reads else nullcontext():
            super().substitution(part, places)

    # Simple commands

    def call(self, node: Node, stmt: Node, redirections: tuple[Redirection, ...], places: Places) -> After:
        arguments = node.get("Args", ())
        before = node.get("Assigns", ())
        # Facts about shfmt: in `coproc q a=b` it takes the word for an assignment.
        if arguments and before and before[-1]["Pos"]["Offset"] > arguments[0]["Pos"]["Offset"]:
            raise UnknownNode("an assignment behind a program's name")
        self.quoted_descriptors(arguments, stmt.get("Redirs", ()))
        assignments = [self.assignment(a, places, bool(arguments)) for a in before]
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
        self.quoted_descriptors(node.get("Args", ()), stmt.get("Redirs", ()))
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
        value = read_word(node["Value"], self.scope, assigns=True) if "Value" in node else None
        if value is not None and node.get("Append"):
            value = appended(value)
        if value is None or not (keeps(name, value) or default(name, value)):
            self.findings.assigned.add(name)
        self.findings.assigns_any |= not name.isidentifier()
        self.findings.makes_lists |= "Index" in node or "Array" in node
        if exported:
            self.findings.exported.add(name)
        exported = (
            exported or self.facts.exports_all or name in self.facts.exported or name in IN_MANY_ENVIRONMENTS
        )
        if "Index" in node:
            self.subscript(node["Index"], node, places)
        if "Array" in node:
            self.array(node["Array"], places)
        if "Value" in node:
            self.visit_word(node["Value"], places)
        return Assignment(name, span, value, exported)

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
        if words and not _inputs(redirections):
            redirections += self.inputs
            if self.facts.replaces_input:
                redirections += (piped(unknown_text(place)),)
        command = Command(
            words=tuple(words),
            span=self.source.in_the_line(place),
            text=self.source.text[place.start : place.end],
            assignments=tuple(assignments),
            redirections=redirections,
            # Code that seems unreachable may run after all, in any directory.
            directories=places if places != () else None,
            via=self.via,
        )
        self.findings.commands.append(command)
        if self.called and self.source.within is None and not self.facts.sets_parameters:
            from pinfold.shell.forwarding_functions import ForwardedCommand  # most lines have no function

            self.findings.add_forwarded(ForwardedCommand(self.called, command))

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


def _inputs(redirections: tuple[Redirection, ...]) -> tuple[Redirection, ...]:
    return tuple(each for each in redirections if each.feeds)
