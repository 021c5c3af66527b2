"""Text to `Script`: everything that a line may start, brought to light.

`parse` is total: any text gets an answer, and text that cannot be judged gets a `problem`. Here live the
order of the steps, the bounds, and the memory of lines already seen. What nodes, builtins and programs mean
is known elsewhere (`walk`, `builtins`, `unwrap`).

A pass: tree -> raw commands -> for each one, the shell's own view (`builtins`) and the program's (`unwrap`),
which may uncover commands and texts, until nothing new turns up. Passes repeat while facts about the whole
line grow (`findings`).
"""

import time
from collections import deque
from typing import Protocol

from msgspec.structs import replace

from pinfold.model.script import Command, Computed, Script, Trait, Word
from pinfold.model.text import Span
from pinfold.shell.builtins import examine
from pinfold.shell.dialects import find_divergence, has_bash_only_syntax, runs_in_another_shell
from pinfold.shell.findings import Facts, Findings, Nested, Places
from pinfold.shell.shfmt import SyntaxTrouble
from pinfold.shell.source import Source
from pinfold.shell.syntax import MAX_CHARACTERS, Tree, load_tree
from pinfold.shell.unwrap import unwrap
from pinfold.shell.walk import walk
from pinfold.shell.words import UnknownNode

MAX_DEPTH = 8
MAX_TEXTS = 64
MAX_COMMANDS = 1_000
MAX_PASSES = 6
SECONDS = 3.0
REMEMBERED = 512


class TreeLoader(Protocol):
    def load_tree(self, text: str, /) -> Tree: ...


_remembered: dict[str, Script] = {}


def parse(text: str, *, parser: TreeLoader | None = None) -> Script:
    """Everything that `text` may start."""
    known = _remembered.get(text)
    if known is not None:
        return known
    try:
        script = _Line(text, parser).script()
    except _TooMuch as trouble:
        return Script(text, problem=str(trouble))  # may be the machine's fault: ask again next time
    if len(text) <= MAX_CHARACTERS:
        _remember(script)
    return script


def _remember(script: Script) -> None:
    while len(_remembered) >= REMEMBERED:
        try:
            _remembered.pop(next(iter(_remembered)), None)
        except (RuntimeError, StopIteration):
            return  # another thread changed it meanwhile; what is not remembered is parsed again
    _remembered[script.text] = script


class _TooMuch(Exception):  # noqa: N818
    """A bound was reached."""


class _Line:
    def __init__(self, text: str, parser: TreeLoader | None) -> None:
        self.text = text
        self.parser = parser
        self.trees: dict[str, Tree | SyntaxTrouble] = {}
        self.deadline = time.monotonic() + SECONDS

    def script(self) -> Script:
        text = self.text
        if "\0" in text:
            at = text.index("\0")
            return Script(text, problem="contains a NUL character", problem_span=Span(at, at + 1))
        if len(text) > MAX_CHARACTERS:
            return Script(text, problem=f"longer than {MAX_CHARACTERS:,} characters")
        divergence = find_divergence(text)
        if divergence is not None:
            problem, at = divergence
            return Script(text, problem=problem, problem_span=Span(at, at + 1))
        try:
            return self.passes()
        except SyntaxTrouble as trouble:
            start = trouble.offset
            span = None if start is None else Span(start, min(start + 1, len(text)))
            return Script(text, problem=trouble.message, problem_span=span)
        except UnknownNode as node:
            return Script(text, problem=str(node))
        except RecursionError:
            return Script(text, problem="nested too deeply")

    def passes(self) -> Script:
        facts = Facts()
        for _ in range(MAX_PASSES):
            findings = _Pass(self, facts).run()
            learned = findings.learned()
            if learned == facts:
                return Script(self.text, tuple(findings.commands), tuple(findings.unknowns))
            facts = learned
        raise _TooMuch("too many definitions inside of each other")

    def tree(self, text: str) -> Tree:
        """The tree of the line or of a text in it; each is loaded once."""
        known = self.trees.get(text)
        if known is None:
            if len(self.trees) > MAX_TEXTS:
                raise _TooMuch("too many texts inside of each other")
            if time.monotonic() > self.deadline:
                raise _TooMuch("judging it takes too long")
            try:
                known = (self.parser.load_tree if self.parser else load_tree)(text)
            except SyntaxTrouble as trouble:
                known = trouble
            self.trees[text] = known
        if isinstance(known, SyntaxTrouble):
            raise known
        return known


class _Pass:
    """One reading of the line under the facts known so far."""

    def __init__(self, line: _Line, facts: Facts) -> None:
        self.line = line
        self.facts = facts
        self.findings = Findings(facts)
        self.done: list[Command] = []
        self.waiting: deque[Command] = deque()
        self.seen: set[tuple[str, Places]] = set()

    def run(self) -> Findings:
        self.read(self.line.text, None, ((),), ())
        while self.waiting:
            if len(self.done) >= MAX_COMMANDS:
                raise _TooMuch("starts too many commands")
            if time.monotonic() > self.line.deadline:
                raise _TooMuch("judging it takes too long")
            self.settle(self.waiting.popleft())
        self.findings.commands = [self.marked(command) for command in self.done]
        return self.findings

    def read(
        self, text: str, within: Span | None, places: Places, via: tuple[str, ...], *, is_alias: bool = False
    ) -> None:
        source = Source(text, within)
        if "\r" in text:
            at = text.index("\r")
            self.findings.unknown("control character", within or Span(at, at + 1))
        if text.strip(" \t\n"):
            walk(self.line.tree(text), source, places, via, self.findings)
        if is_alias and self.findings.commands:
            last = self.findings.commands[-1]
            rest = Word("", last.span, (Computed("arguments of the alias", False),))
            self.findings.commands[-1] = replace(last, words=(*last.words, rest))
        # What a text starts stands where the command stood that holds the text.
        self.waiting.extendleft(reversed(self.findings.commands))
        self.findings.commands = []

    def settle(self, command: Command) -> None:
        texts = examine(command, self.findings)
        unwrapped = unwrap(command)
        self.done.append(unwrapped.command)
        for unknown in unwrapped.unknowns:
            self.findings.unknown(unknown.why, unknown.span, runs=unknown.runs)
        if len(command.via) >= MAX_DEPTH and (unwrapped.inner or unwrapped.texts or texts):
            raise _TooMuch("too many commands inside of each other")
        self.waiting.extendleft(reversed(unwrapped.inner))
        for found in unwrapped.texts:
            texts.append(Nested(found.text, found.span, found.via, command.directories))
        for nested in texts:
            self.nested(nested)

    def nested(self, nested: Nested) -> None:
        key = (nested.text, nested.directories)
        if key in self.seen:
            return
        self.seen.add(key)
        problem = "\0" in nested.text or find_divergence(nested.text) is not None
        try:
            if not problem:
                self.read(nested.text, nested.span, nested.directories, nested.via, is_alias=nested.is_alias)
        except SyntaxTrouble:
            problem = True
        if problem:
            self.findings.unknown("a text inside of the line cannot be parsed", nested.span, runs=True)
        elif runs_in_another_shell(nested.via) and has_bash_only_syntax(nested.text):
            self.findings.unknown("`sh` may read this otherwise than bash does", nested.span, runs=True)

    def marked(self, command: Command) -> Command:
        name = command.words[0].literal if command.words else None
        if name is None or name not in self.facts.defined:
            return command
        return replace(command, traits=command.traits | {Trait.REDEFINED})
