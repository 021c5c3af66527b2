"""Text to `Script`: finds everything that a line may start.

This module has the order of the steps, the bounds, and the cache of lines already parsed. Other modules know
what nodes, builtins and programs mean (`walk`, `builtins`, `unwrap`).

A pass: tree -> raw commands -> for each one, what it does to the shell (`builtins`) and what the program does
(`unwrap`). Both may find further commands and texts; the pass ends when there are no new ones. Passes repeat
while facts about the whole line grow (`findings`).

INVARIANT: trouble removes no command. Where a text cannot be read to its end, or a bound is reached, `Script`
lists the commands found elsewhere in the line, and `problem` says that there may be more.
"""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from msgspec.structs import replace

from pinfold.model.deadline import NEVER, Deadline
from pinfold.model.script import Command, Computed, Redirection, Script, Trait, Word
from pinfold.model.text_positions import Span
from pinfold.shell.builtins import examine
from pinfold.shell.dialects import find_divergence, has_bash_only_syntax, runs_in_another_shell
from pinfold.shell.findings import MAX_DEPTH, Findings, LineFacts, Nested, Places, Problem
from pinfold.shell.program_variables import argument_assignments, with_given_words
from pinfold.shell.shfmt import ParserTrouble, SyntaxTrouble, Trouble
from pinfold.shell.syntax import MAX_CHARACTERS, ReadLines, load_tree, read_lines
from pinfold.shell.tree_text import Node, SourceText
from pinfold.shell.unwrap import unwrap
from pinfold.shell.walk import walk

MAX_TEXTS = 64
MAX_COMMANDS = 1_000
MAX_FORWARDED_WORDS = 10_000
"""Words of all commands that functions start with their parameters."""
MAX_PASSES = 6
SECONDS = 3.0
REMEMBERED = 512


class TreeLoader(Protocol):
    def load_tree(self, text: str, /) -> Node: ...


_remembered: dict[str, Script] = {}


def parse(text: str, *, parser: TreeLoader | None = None, deadline: Deadline = NEVER) -> Script:
    """Everything that `text` may start. Any text gets a `Script`; an unreadable one has a `problem`.

    The commands of a text with a problem are those of its whole lines before the error (bash has run them by
    then), and all others that could be read.

    Trouble of this machine differs from trouble of the text:
    - the parser is missing or cannot be started: PinfoldError, since nothing can be judged without it;
    - it takes too long for this text, or died of it twice: a `problem`, which is not cached.
    """
    known = _remembered.get(text)
    if known is not None:
        return known
    line = _Line(text, parser, deadline)
    script = line.script()
    if line.lasts and len(text) <= MAX_CHARACTERS:
        _remember(script)
    return script


def _remember(script: Script) -> None:
    while len(_remembered) >= REMEMBERED:
        try:
            _remembered.pop(next(iter(_remembered)), None)
        except (RuntimeError, StopIteration):
            return  # another thread changed the cache meanwhile; an uncached line is parsed again
    _remembered[script.text] = script


class _Line:
    def __init__(self, text: str, parser: TreeLoader | None, due: Deadline) -> None:
        self.text = text
        self.due = due
        self.load = parser.load_tree if parser else load_tree
        self.readings: dict[str, ReadLines] = {}
        self.deadline = Deadline(SECONDS)
        self.lasts = True
        """Whether the same text would get the same result at any time."""

    def script(self) -> Script:
        text = self.text
        if "\0" in text:
            at = text.index("\0")
            return Script(text, problem="contains a NUL character", problem_span=Span(at, at + 1))
        if len(text) > MAX_CHARACTERS:
            return Script(text, problem=f"longer than {MAX_CHARACTERS:,} characters")
        findings = self.passes()
        problem = findings.problem or Problem("")
        return Script(text, tuple(findings.commands), tuple(findings.unknowns), problem.why, problem.span)

    def passes(self) -> Findings:
        facts = LineFacts()
        for _ in range(MAX_PASSES):
            findings = _Pass(self, facts).run()
            learned = findings.learned()
            if learned == facts:
                return findings
            facts = learned
        findings.unreadable("too many definitions inside of each other")
        return findings

    def reading(self, text: str) -> ReadLines:
        """The readable lines of the line, or of a text in it; each text is read once."""
        known = self.readings.get(text)
        if known is None:
            if len(self.readings) > MAX_TEXTS:
                return ReadLines("", {}, Trouble("too many texts inside of each other"))
            known = self.readings[text] = read_lines(text, self.tree)
        return known

    def tree(self, text: str) -> Node:
        if self.is_late():
            raise ParserTrouble("judging it takes too long")
        try:
            return self.load(text)
        except ParserTrouble:
            if self.lasts:  # the lines before the failing one get their own time, once
                self.deadline = Deadline(SECONDS)
            self.lasts = False
            raise

    def is_late(self) -> bool:
        if not (self.deadline.is_past or self.due.is_past):
            return False
        self.lasts = False
        return True


class _Pass:
    """One reading of the line under the facts known so far."""

    def __init__(self, line: _Line, facts: LineFacts) -> None:
        self.line = line
        self.facts = facts
        self.findings = Findings(facts)
        self.done: list[Command] = []
        self.waiting: deque[Command] = deque()
        self.seen: set[tuple[str, Places, tuple[Redirection, ...]]] = set()
        self.seen_calls: set[tuple[Command, tuple[Word, ...]]] = set()
        self.forwarded_words = 0

    def run(self) -> Findings:
        self.whole()
        self.settle_all()
        while self.findings.evaluates and self.findings.quoted:
            text, span = self.findings.quoted.pop()
            self.nested(Nested(text, span, (), None))
            self.settle_all()
        self.findings.commands = [self.marked(command) for command in self.done]
        return self.findings

    def settle_all(self) -> None:
        while self.waiting:
            if len(self.done) >= MAX_COMMANDS:
                self.findings.unreadable("starts too many commands")
                return
            if self.line.is_late():
                self.findings.unreadable("judging it takes too long")
                return
            self.settle(self.waiting.popleft())

    def whole(self) -> None:
        text = self.line.text
        trouble = self.read(text, None, ((),), ())
        if trouble is not None:
            start = trouble.offset
            span = None if start is None else Span(start, min(start + 1, len(text)))
            self.findings.unreadable(trouble.message, span)

    def read(
        self,
        text: str,
        within: Span | None,
        places: Places,
        via: tuple[str, ...],
        inputs: tuple[Redirection, ...] = (),
        *,
        is_alias: bool = False,
    ) -> Trouble | None:
        """Queues the commands of a text, or of its readable lines; returns what is wrong with it."""
        if "\r" in text:
            at = text.index("\r")
            self.findings.unknown("control character", within or Span(at, at + 1))
        if not text.strip(" \t\n"):
            return None
        reading = self.line.reading(text)
        try:
            source = SourceText(reading.text, within, self.start_of(text, within))
            walk(reading.tree, source, places, via, self.findings, inputs)
        except RecursionError:
            self.findings.unreadable("nested too deeply")
        if is_alias and self.findings.commands:
            last = self.findings.commands[-1]
            rest = Word("", last.span, (Computed("arguments of the alias", False),))
            self.findings.commands[-1] = replace(last, words=(*last.words, rest))
        # The commands of a text come in the place of the command that holds the text.
        commands = self.findings.commands
        found = [each for command in commands for each in (command, *self.forwarded_by(command))]
        self.waiting.extendleft(reversed(found))
        self.findings.commands = []
        hidden, self.findings.hidden = self.findings.hidden, []
        for command, span, there in hidden:
            self.nested(Nested(command, span, via, there, inputs))
        divergence = find_divergence(text, reading.tree)
        return SyntaxTrouble(*divergence) if divergence is not None else reading.trouble

    def start_of(self, text: str, within: Span | None) -> int | None:
        """Where a text begins in the line, if the line holds it unchanged: `'ls; git push'`."""
        written = self.line.text[within.start : within.end] if within else ""
        return within.start + written.index(text) if within and written.count(text) == 1 else None

    def settle(self, command: Command) -> None:
        texts = examine(command, self.findings)
        sets_path = self.facts.is_assigned("PATH")
        unwrapped = unwrap(command, self.findings.contents_of, sets_path=sets_path)
        self.done.append(unwrapped.command)
        self.findings.written += unwrapped.written
        for unknown in unwrapped.unknowns:
            self.findings.unknown(unknown.why, unknown.span, runs=unknown.runs, is_data=unknown.is_data)
        if len(command.via) >= MAX_DEPTH and (unwrapped.inner or unwrapped.texts or texts):
            self.findings.unreadable("too many commands inside of each other")
            return
        self.waiting.extendleft(reversed((*unwrapped.inner, *self.with_variables(unwrapped.command))))
        for found in unwrapped.texts:
            texts.append(Nested(found.text, found.span, found.via, command.directories, command.inputs))
        for nested in texts:
            self.nested(nested)

    def with_variables(self, command: Command) -> tuple[Command, ...]:
        """The command with the words that variables of the line give it."""
        if command.assignments:
            self.findings.argument_assignments += argument_assignments(command.assignments)
        known = self.facts.argument_assignments
        return tuple(with_given_words(command, known)) if known else ()

    def forwarded_by(self, call: Command) -> Iterator[Command]:
        """The commands that a function starts with the words of a call, and those that these call in turn.

        Only the shell calls functions: `command git` and `timeout 5 git` start the program of that name.
        """
        name = call.words[0].literal if call.words else None
        for each in self.findings.forwarded.get(name or "", ()):
            self.forwarded_words += each.word_count(call)
            if len(call.via) >= MAX_DEPTH or self.forwarded_words > MAX_FORWARDED_WORDS:
                self.findings.unreadable("too many commands inside of each other")
                return
            given = each.called_with(call.words[1:], call)
            key = (each.command, given.words)
            if given.words and key not in self.seen_calls:  # a function that calls itself adds nothing new
                self.seen_calls.add(key)
                yield given
                yield from self.forwarded_by(given)

    def nested(self, nested: Nested) -> None:
        key = (nested.text, nested.directories, nested.inputs)
        if key in self.seen:
            return
        self.seen.add(key)
        where = (nested.span, nested.directories, nested.via, nested.inputs)
        if self.read(nested.text, *where, is_alias=nested.is_alias):
            self.findings.unknown("a text inside of the line cannot be parsed", nested.span, runs=True)
        elif runs_in_another_shell(nested.via) and has_bash_only_syntax(nested.text):
            self.findings.unknown("`sh` may read this differently than bash", nested.span, runs=True)

    def marked(self, command: Command) -> Command:
        name = command.words[0].literal if command.words else None
        if name is None or name not in self.facts.defined:
            return command
        return replace(command, traits=command.traits | {Trait.REDEFINED})
