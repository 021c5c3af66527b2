"""A parsed command line: `shell.parse` makes it and `policy.decide` judges it.

INVARIANT: every simple command that the line may start is among `Script.commands`, or one of
`Script.unknowns` says that the line may start an unknown command. Nothing is left out because it is
quoted, nested, wrapped or written in an unusual way.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from pinfold.model.text_positions import Span

LONGEST_LINE = 10_000
"""Characters; Pinfold does not judge a longer line."""
SOME_NAME = "\N{REPLACEMENT CHARACTER}"
"""A placeholder for a name that is not known but certainly there."""


class Substitution(StrEnum):
    """Values of `Computed.what` that decisions depend on; the other values are only shown to people."""

    PROCESS = "process substitution"
    """`<(...)`: a file whose text a command of the line prints."""


class Text(Struct, frozen=True, tag=True):
    """Literal characters, quoting undone."""

    text: str


class Glob(Struct, frozen=True, tag=True):
    """An active pattern: `*`, `?`, `[...]` or an extended one."""

    text: str


class Variable(Struct, frozen=True, tag=True):
    """A plain `$NAME`, not assigned in this line."""

    name: str
    quoted: bool


class Home(Struct, frozen=True, tag=True):
    """`~` or `~user` at the start of a word."""

    user: str = ""


class Computed(Struct, frozen=True, tag=True):
    """Anything else that only the shell can know."""

    what: str
    """The kind of expansion for people to read, such as `command substitution`."""
    quoted: bool
    may_be_empty: bool = True
    """False for what a program itself fills in: `find`'s `{}` is always a name below the searched
    directory."""


class Defaulted(Computed, frozen=True, tag=True):
    """`${NAME:-text}`, of a variable that is not assigned in this line."""

    name: str = ""
    default: str = ""


Part: TypeAlias = Text | Glob | Variable | Home | Computed


class Word(Struct, frozen=True):
    """One word of a command, before expansion."""

    source: str
    """As it was written."""
    span: Span
    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """Its value with quoting undone; None where the shell computes a part of it."""
        if len(self.parts) == 1:  # nearly every word, and callers ask this of every word many times
            part = self.parts[0]
            return part.text if isinstance(part, Text) else None
        if all(isinstance(part, Text) for part in self.parts):
            return "".join(part.text for part in self.parts if isinstance(part, Text))
        return None

    def known(self, variables: Mapping[str, str]) -> str | None:
        """Its value with `variables` filled in (`HOME` also for `~`), or None."""
        values = [_value(part, variables) for part in self.parts]
        return None if None in values else "".join(value for value in values if value is not None)

    def pattern(self, variables: Mapping[str, str]) -> str | None:
        """Its value as a path pattern, globs kept, literal glob characters bracketed; or None."""
        pieces: list[str] = []
        for part in self.parts:
            if isinstance(part, Glob):
                pieces.append(part.text)
                continue
            value = _value(part, variables)
            if value is None:
                return None
            pieces.append("".join(f"[{c}]" if c in "*?[" else c for c in value))
        return "".join(pieces)

    def emptied(self, variables: Mapping[str, str]) -> str:
        """Its value if everything in it that may be empty is empty: `"$X"/*` may be `/*`."""
        pieces: list[str] = []
        for part in self.parts:
            if isinstance(part, Text | Glob):
                pieces.append(part.text)
            elif isinstance(part, Computed) and not part.may_be_empty:
                pieces.append(SOME_NAME)
            else:
                pieces.append(_value(part, variables) or "")
        return "".join(pieces)

    @property
    def has_glob(self) -> bool:
        return any(isinstance(part, Glob) for part in self.parts)

    @property
    def splits(self) -> bool:
        """Whether it may become any number of words, none included."""
        return any(
            isinstance(part, Glob) or (isinstance(part, Variable | Computed) and not part.quoted)
            for part in self.parts
        )

    @property
    def file_name(self) -> str | None:
        """The name after its last `/`, where only the directories before it are computed, or None.

        Of `~/bin/tool` and `"$X"/bin/tool` it is `tool`. Accepted: that HOME holds no blanks.
        """
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, Text) or "/" not in last.text:
            return None
        is_one_word = not Word(self.source, self.span, tuple(p for p in self.parts if p != _HOME)).splits
        return (last.text.rpartition("/")[2] or None) if is_one_word else None

    @property
    def may_vanish(self) -> bool:
        """Whether it may become no word at all: `$X` does where X is empty, `"$X"` and `a$X` do not."""
        return all(
            (isinstance(part, Variable) or (isinstance(part, Computed) and part.may_be_empty))
            and not part.quoted
            for part in self.parts
        )

    @property
    def start(self) -> str:
        """The literal text that it certainly begins with."""
        start = ""
        for part in self.parts:
            if not isinstance(part, Text):
                break
            start += part.text
        return start

    @property
    def may_be_option(self) -> bool:
        """Whether a program could take it for an option."""
        start = self.start
        return start.startswith("-") if start else self.literal is None


_HOME = Variable("HOME", quoted=False)


def _value(part: Part, variables: Mapping[str, str]) -> str | None:
    match part:
        case Text(text):
            return text
        case Variable(name, quoted):
            value = variables.get(name)
            # Unquoted, a value is split and globbed; only a plain one survives as itself.
            return value if value is None or quoted or not set(value) & set(" \t\n*?[\\") else None
        case Home(user):
            return variables.get("HOME") if not user else None
        case _:
            return None


def literal_word(text: str, span: Span) -> Word:
    return Word(text, span, (Text(text),))


def drop_start(word: Word, count: int) -> Word:
    """The word without its first `count` characters, which must be literal."""
    parts = list(word.parts)
    source = word.source[count:] if word.source.startswith(word.start[:count]) else word.source
    while count and parts:
        part = parts.pop(0)
        if not isinstance(part, Text):
            return word
        if len(part.text) > count:
            parts.insert(0, Text(part.text[count:]))
        count -= min(count, len(part.text))
    return Word(source, word.span, tuple(parts))


def known_text(word: Word) -> str:
    """The literal text of a word, what is computed left out."""
    return "".join(part.text for part in word.parts if isinstance(part, Text))


class Assignment(Struct, frozen=True):
    """`NAME=value`, alone, before a command or given to `env`."""

    name: str
    span: Span
    value: Word | None = None
    """None where nothing or an array is assigned."""
    exported: bool = False
    """Whether it reaches the environment of programs: a prefix, `export`, `declare -x`, `env`."""


class Redirection(Struct, frozen=True):
    operator: str
    """As written, without the descriptor: `>`, `>>`, `<`, `<<<`, `&>` ..."""
    target: Word
    span: Span
    writes: bool
    reads: bool
    feeds: bool = False
    """Whether it may be standard input. A pipe is such a redirection too, with the operator `|`."""


class Hazard(Struct, frozen=True):
    """Something in a command that makes it do more than its name says."""

    why: str
    span: Span
    option: str = ""
    """The option that does it. An allow rule that names this option accepts it."""


class Unknown(Struct, frozen=True):
    """A place in the line whose effect cannot be known before it runs."""

    why: str
    span: Span
    runs: bool
    """It may start any command (`$X` as a program, `eval`); else it may only get around an allowlist."""
    is_data: bool = False
    """It starts a command only if its input holds one; in ordinary work that is data (`pg_dump a | psql
    b`)."""


class Trait(StrEnum):
    """A property of a program, mostly one that follows from its name."""

    INTERPRETER = "interpreter"
    """It runs code from its arguments or input: a shell, a language, a build tool's inline code."""
    ELEVATES = "elevates"
    """It runs a program with other privileges: sudo, doas, pkexec."""
    TRANSPARENT = "transparent"
    """It adds nothing to the command it wraps, so it needs no approval of its own."""
    REDEFINED = "redefined"
    """The line itself defines a function or alias of this name."""
    CHANGES_PINFOLD = "changes_pinfold"
    """A `pinfold` command that changes settings or approvals, or widens."""
    TEXT_ONLY = "text_only"
    """Its operands are text, never files."""
    RUNS_CODE = "runs_code"
    """It runs code in a language that Pinfold does not read, from its words or from standard input."""
    PASSES_ON = "passes_on"
    """Some of its words go to an unknown program: a plug-in, a script of the project."""
    KEEPS_NAMES = "keeps_names"
    """What it writes into a directory has the names of what it reads: cp, mv, ln."""
    UNCHARTED = "uncharted"
    """`shell/data/` does not describe this program: what its operands mean, and which options are
    harmless."""


class Command(Struct, frozen=True):
    """One simple command that the line may start."""

    words: tuple[Word, ...]
    """The program first; empty for a lone assignment or redirection."""
    span: Span
    text: str
    """As written; for a command found inside a quoted text, the part of that text."""
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    directories: tuple[tuple[Word, ...], ...] | None = ((),)
    """Where it may run: each possibility lists the `cd`s from the line's start; None is anywhere."""
    via: tuple[str, ...] = ()
    """The wrappers around it, outermost first."""
    program: str = ""
    """The program's plain name, empty if unknown."""
    flags: tuple[str, ...] = ()
    """Its options in their canonical spelling, clusters split, without values."""
    operands: tuple[Word, ...] = ()
    """Its words that are neither options nor values of options."""
    reads: tuple[Word, ...] = ()
    """Operands and option values known to be read."""
    reads_below: bool = False
    """Whether it reads everything below the directories among `reads`."""
    follows_links: bool = False
    """Whether it also reads what links below them lead to."""
    writes: tuple[Word, ...] = ()
    deletes: tuple[Word, ...] = ()
    unexplained: tuple[Word, ...] = ()
    """Words of which no chart says what the program does with them: it may write there."""
    hazards: tuple[Hazard, ...] = ()
    traits: frozenset[Trait] = frozenset()
    stands_for: "Command | None" = None
    """The command that it also is, so that deny and ask rules match that too: `python -m pip` is `pip`."""

    @property
    def inputs(self) -> tuple[Redirection, ...]:
        """The redirections and pipes that may be its standard input."""
        return tuple(redirection for redirection in self.redirections if redirection.feeds)


class Goals(Struct, frozen=True):
    """For a program that takes several goals: each operand is one, as in `make test deploy`."""

    between: str = ""
    """What separates the parts of a goal's name, as a regular expression: `:app:publish`."""
    abbreviated: bool = False
    """A goal may be abbreviated by the beginnings of its parts: `pTML` is `publishToMavenLocal`."""
    common: tuple[str, ...] = ()
    """Goals that nearly every project has, and which therefore abbreviate no other goal."""


class Shape(Struct, frozen=True):
    """What a rule's text requires of a command, in the canonical form of `Command`."""

    program: str
    words: tuple[str, ...]
    """The rule's words exactly, program first. Allow rules compare these."""
    flags: tuple[str, ...] = ()
    """The rule's options. Deny and ask rules compare these; options that change nothing (`rm -f`) left
    out."""
    operands: tuple[str, ...] = ()
    also_spelled: tuple[str, ...] = ()
    """Other names of the first operand, where that is a subcommand."""
    goals: Goals | None = None
    several_from: int | None = None
    """The index of the first operand that the program takes several of: `systemctl stop a b`."""
    is_doubtful: bool = False
    """The program may not be the one that the rule names: `sh` is bash on many systems only."""
    also: tuple["Shape", ...] = ()
    """Synonyms that deny and ask rules match as well: `docker container run` is `docker run`."""


class Script(Struct, frozen=True):
    """A whole line."""

    text: str
    commands: tuple[Command, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    problem: str = ""
    """Why the line could not be parsed; empty if it could."""
    problem_span: Span | None = None
