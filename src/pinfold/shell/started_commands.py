"""What a command starts, collected while `unwrap` goes through its words: commands, shell texts, unknowns.

This module decides what a started command inherits, and which text a shell makes of its words. `unwrap` and
`inline_code` find out which words of a program start anything.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.script import (
    Assignment,
    Command,
    Computed,
    Hazard,
    Unknown,
    Word,
    drop_start,
    literal_word,
)
from pinfold.model.text_positions import Span
from pinfold.shell.dialects import reads_alike
from pinfold.shell.findings import ShellText
from pinfold.shell.options import CommandStage, GivenOption
from pinfold.shell.program_variables import texts_in_variables
from pinfold.shell.programs import Runs, chart, program_name
from pinfold.shell.quotes import split_like_env
from pinfold.shell.stdin import piped
from pinfold.shell.written_files import WrittenFile


class StartedCommands:
    """What one command starts."""

    def __init__(self, command: Command, name: str, runs: Runs) -> None:
        self.command = command
        """The command that starts them, completed step by step."""
        self.name = name
        self.runs = runs
        self.via = (*command.via, name)
        self.inner: list[Command] = []
        self.texts: list[ShellText] = []
        self.unknowns: list[Unknown] = []

    def start(
        self, words: tuple[Word, ...], assignments: tuple[Assignment, ...] = (), *, anywhere: bool = False
    ) -> None:
        if not words:
            return
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        outer = tuple(replace(a, exported=True) for a in self.command.assignments)
        lost = anywhere or self.runs.remote
        self.add_variables(assignments, self.via)
        self.inner.append(
            Command(
                words=words,
                span=span,
                text=" ".join(word.source for word in words),
                assignments=outer + assignments,
                redirections=tuple(replace(r, writes=False, reads=False) for r in self.command.inputs),
                directories=None if lost else self.command.directories,
                via=self.via,
            )
        )

    def start_text(self, words: tuple[Word, ...], span: Span) -> None:
        """Adds words that a shell gets joined by spaces."""
        texts = [word.literal for word in words]
        if all(text is not None for text in texts):
            joined = " ".join(text for text in texts if text is not None)
            self.texts.append(ShellText(joined, words[0].span if len(words) == 1 else span, self.via))
        else:
            self.start_unknown(f"the command that `{self.name}` runs is only known when the line runs", span)

    def start_foreign(self, span: Span, *, is_data: bool = False) -> None:
        """Adds code in another language than the shell's."""
        why = f"code for `{self.name}` is not shell code and cannot be judged"
        self.start_unknown(why, span, is_data=is_data)

    def start_unknown(self, why: str, span: Span, *, is_data: bool = False) -> None:
        """Adds a place that may start any command."""
        self.unknowns.append(Unknown(why, span, True, is_data))

    def start_alias(self, stage: CommandStage, name: str) -> bool:
        """Starts the meaning of an alias that the line defines: `git -c alias.p=push p` is `git push`."""
        for given in stage.arguments.given:
            text = given.value.literal if given.value is not None else None
            key, _, meaning = (text or "").partition("=")
            if not given.option.alias or key.lower() != f"{given.option.alias}{name}".lower():
                continue
            rest = stage.arguments.operands[1:]
            if meaning.startswith("!"):
                self.start_text((literal_word(meaning[1:], given.word.span), *rest), given.word.span)
            else:
                words = listed(literal_word(meaning, given.word.span), given.option.between or r"\s+")
                self.start((self.command.words[0], *words, *rest))
            return True
        return False

    def start_if_read_alike(self, text: Word) -> None:
        """Starts text for another shell as shell text, if that shell reads it as bash does."""
        if text.literal is not None and reads_alike(text.literal):
            self.start_text((text,), text.span)
        else:
            self.start_foreign(text.span)

    def start_setting(self, given: GivenOption) -> None:
        """Starts the shell text in a setting, for keys known to hold it: `git -c core.pager='less -S'`."""
        start = given.value.start if given.value is not None else ""
        key, equals, _ = start.partition("=")
        if equals and given.value is not None and re.fullmatch(given.option.settings, key):
            value = drop_start(given.value, len(key) + 1)
            if given.option.between and value.literal is not None:
                self.start(listed(value, given.option.between))
                return
            text = drop_start(value, 1) if value.start.startswith("!") else value
            self.start_text((text,), given.word.span)

    def start_split(self, value: Word, rest: tuple[Word, ...]) -> None:
        texts = split_like_env(value.literal) if value.literal is not None else None
        if texts is None:
            why = f"how `{self.name}` splits `{value.source}` is only known when the line runs"
            self.start_unknown(why, value.span)
            return
        words = tuple(literal_word(text, value.span) for text in texts)
        self.start((self.command.words[0], *words, *rest))

    def add_variables(self, assignments: tuple[Assignment, ...], via: tuple[str, ...]) -> None:
        """Adds commands in variables that programs run by themselves, such as `PAGER`."""
        told = texts_in_variables(assignments, via)
        self.texts += told.texts
        self.unknowns += told.unknowns


ASSUMED = ("HOME", "PATH")
"""Variables that every program is assumed to have."""


class Unwrapped(Struct, frozen=True):
    """A completed command, and what it starts and writes."""

    command: Command
    inner: tuple[Command, ...] = ()
    texts: tuple[ShellText, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    written: tuple[WrittenFile, ...] = ()


def run_by_its_first_line(text: Word, command: Command) -> Command:
    """The command that the kernel, or else the shell, makes of a script run as a program: `#!/bin/sh`."""
    first, _, _ = text.start.partition("\n")
    words = first[2:].split() if first.startswith("#!") else []
    names = tuple(literal_word(name, text.span) for name in (*(words or ["bash"]), "/dev/stdin"))
    via = (*command.via, command.words[0].source)
    return replace(command, words=names, redirections=(piped(text),), via=via)


def with_unseen_arguments(command: Command, files: str) -> Command:
    """The command with each `@FILE` marked as any number of unknown words."""
    unseen = [word for word in command.words[1:] if files and re.fullmatch(files, word.start)]
    if not unseen:
        return command
    may_be_any = (Computed("the words in a file", quoted=False),)
    words = tuple(replace(word, parts=may_be_any) if word in unseen else word for word in command.words)
    hazards = tuple(Hazard("takes its arguments from a file", word.span) for word in unseen)
    return replace(command, words=words, hazards=command.hazards + hazards)


def stand_for(command: Command, other: Command) -> Command:
    """The command, which also is the other one."""
    further = command.stands_for
    return replace(command, stands_for=other if further is None else stand_for(further, other))


def listed(value: Word, between: str) -> tuple[Word, ...]:
    """The words of a list with this separator."""
    return tuple(literal_word(each, value.span) for each in re.split(between, value.literal or "") if each)


def is_code_file(file: Word) -> bool:
    known = chart(program_name(file.literal)) if file.literal else None
    return known is not None and known.program.code_file


def is_code(pattern: str, value: Word | None) -> bool:
    text = value.literal if value is not None else ""
    return text is None or re.fullmatch(pattern, text) is not None


def changed_by(given: GivenOption) -> Iterator[Assignment]:
    """The variables that an option sets or unsets."""
    if given.option.variable and given.value is not None:
        yield Assignment(given.value.literal or "", given.word.span, exported=True)
    if given.option.empties:
        yield from (Assignment(name, given.word.span, exported=True) for name in ASSUMED)
