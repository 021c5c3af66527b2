"""What a pass over a line has found so far, and which facts about the line it relies on.

Passes repeat while one finds a fact that changes how the start of the line has to be read: a function defined
later, a variable assigned inside of an `eval`. `LineFacts` only ever grow, so this ends.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from pinfold.model.script import Assignment, Command, Redirection, Unknown, Word
from pinfold.model.text_positions import Span
from pinfold.shell.written_files import NOTHING, FileContents, WrittenFile, contents_of

if TYPE_CHECKING:
    from pinfold.shell.forwarding_functions import ForwardedCommand

MAX_DEPTH = 8
"""How deep programs and texts inside of each other are read."""

Places = tuple[tuple[Word, ...], ...] | None
"""Where a command may run: see `Command.directories`. Empty means that the shell never reaches it."""


class LineFacts(Struct, frozen=True):
    """Facts about the line as a whole, from any place in it."""

    assigned: frozenset[str] = frozenset()
    """Variables that the line assigns, except by a loop over words."""
    assigned_by_loop: frozenset[str] = frozenset()
    """Variables of loops over words that are certainly not empty."""
    exported: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    """Names of functions and aliases."""
    assigns_any: bool = False
    """The name in some assignment is unknown."""
    sources_file: bool = False
    """The line sources a file, which may assign anything. Accepted: it is taken to leave HOME alone."""
    exports_all: bool = False
    changes_directory: bool = False
    """Something may change the directory."""
    replaces_input: bool = False
    """Some `exec` gives the shell, and so every later command, another standard input."""
    quotes_substitution: bool = False
    """Some quoted text of the line, which the shell does not expand in its place, holds a substitution."""
    makes_lists: bool = False
    """Some variable is made an array."""
    sets_parameters: bool = False
    """Something changes the parameters of the shell or of a function."""
    written: tuple[WrittenFile, ...] = ()
    """The files that the line writes, if it runs one of them."""
    argument_assignments: tuple[Assignment, ...] = ()
    """Assignments of the line that give programs words."""

    def is_assigned(self, name: str) -> bool:
        known = name in self.assigned or name in self.assigned_by_loop
        return known or self.assigns_any or (self.sources_file and name != "HOME")

    def is_filled_by_its_loop(self, name: str) -> bool:
        """Whether the variable of a loop is certainly not empty inside of it."""
        unsure = self.assigns_any or self.sources_file or name in self.assigned
        return name in self.assigned_by_loop and not unsure


class ShellText(Struct, frozen=True):
    """A text that a shell will run."""

    text: str
    span: Span
    via: tuple[str, ...]


class Nested(Struct, frozen=True):
    """A shell text with where it runs and what it reads."""

    text: str
    span: Span
    via: tuple[str, ...]
    directories: Places
    inputs: tuple[Redirection, ...] = ()
    """What the commands in it may read as standard input."""
    is_alias: bool = False


class Problem(Struct, frozen=True):
    """Why a part of the line could not be read."""

    why: str
    span: Span | None = None


class Findings:
    """What one pass finds."""

    def __init__(self, facts: LineFacts) -> None:
        self.facts = facts
        self.commands: list[Command] = []
        self.unknowns: list[Unknown] = []
        self.problem: Problem | None = None
        """The first one."""
        self.assigned: set[str] = set()
        self.assigned_by_loop: set[str] = set()
        self.exported: set[str] = set()
        self.defined: set[str] = set()
        self.assigns_any = False
        self.sources_file = False
        self.exports_all = False
        self.changes_directory = False
        self.replaces_input = False
        self.quotes_substitution = False
        self.hidden: list[tuple[str, Span, Places]] = []
        """Commands in text that the parser took for literal."""
        self.quoted: list[tuple[str, Span]] = []
        """Commands in quoted text, which run if the shell evaluates that text."""
        self.evaluates = False
        """Whether the shell evaluates some text."""
        self.makes_lists = False
        self.sets_parameters = False
        self.forwarded: dict[str, list[ForwardedCommand]] = {}
        """Commands that functions run with their parameters, by the function's name."""
        self.forwarded_spans: set[Span] = set()
        """The places of parameters in functions: the calls say what they are."""
        self.written: list[WrittenFile] = []
        self.files_run: list[Word] = []
        """The files that the line runs."""
        self.argument_assignments: list[Assignment] = []

    def add_forwarded(self, forwarded: "ForwardedCommand") -> None:
        places = {word.span for word in forwarded.parameter_words}
        if places:
            self.forwarded.setdefault(forwarded.function, []).append(forwarded)
            self.forwarded_spans |= places
            if forwarded.may_start_the_rest:
                self.commands.append(forwarded.called_with((), forwarded.command))

    def contents_of(self, file: Word) -> FileContents:
        """What a file that the line runs may hold, as far as the line writes it."""
        self.files_run.append(file)
        return contents_of(file, self.facts.written) if self.facts.written else NOTHING

    def unknown(self, why: str, span: Span, *, runs: bool = False, is_data: bool = False) -> None:
        found = Unknown(why, span, runs, is_data)
        if found not in self.unknowns and span not in self.forwarded_spans:
            self.unknowns.append(found)

    def evaluated(self, why: str, span: Span, *, runs: bool = False) -> None:
        """Notes that the shell evaluates a text as an expression, and so runs substitutions in its
        subscripts.

        Most such text is a number: it starts a command only if `runs` is set, or the line quotes a
        substitution. Accepted: a substitution made of pieces is not found.
        """
        self.evaluates = True
        self.unknown(why, span, runs=runs or self.facts.quotes_substitution)

    def unreadable(self, why: str, span: Span | None = None) -> None:
        self.problem = self.problem or Problem(why, span)

    def learned(self) -> LineFacts:
        """The facts that the next pass may rely on."""
        facts = self.facts
        return LineFacts(
            facts.assigned | self.assigned,
            facts.assigned_by_loop | self.assigned_by_loop,
            facts.exported | self.exported,
            facts.defined | self.defined,
            facts.assigns_any or self.assigns_any,
            facts.sources_file or self.sources_file,
            facts.exports_all or self.exports_all,
            facts.changes_directory or self.changes_directory,
            facts.replaces_input or self.replaces_input,
            facts.quotes_substitution or self.quotes_substitution,
            facts.makes_lists or self.makes_lists,
            facts.sets_parameters or self.sets_parameters,
            self.written_and_run(),
            tuple(dict.fromkeys((*facts.argument_assignments, *self.argument_assignments))),
        )

    def written_and_run(self) -> tuple[WrittenFile, ...]:
        written = tuple(dict.fromkeys((*self.facts.written, *self.written)))
        is_run = bool(written) and any(contents_of(file, written) != NOTHING for file in self.files_run)
        return written if is_run else self.facts.written
