"""Code that a program gets in its words, on standard input or in a file that the line itself writes.

This module decides whether Pinfold can judge such code. Shell code is one more text of the line. Code in
another language is searched for signs that it runs something. Code that the line does not hold is unknown.
A program's chart says which words and inputs are code; `unwrap` reads it there.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from pinfold.model.script import Redirection, Trait, Word, known_text, literal_word
from pinfold.shell.effects import running_scripts
from pinfold.shell.findings import ShellText
from pinfold.shell.options import CommandStage
from pinfold.shell.started_commands import StartedCommands
from pinfold.shell.stdin import (
    given_texts,
    is_made_by_a_command,
    is_standard_input,
    is_text,
    piped,
    unknown_text,
)
from pinfold.shell.written_files import ContentsOf


class InlineCode:
    """The code that one command runs."""

    def __init__(
        self, found: StartedCommands, stages: tuple[CommandStage, ...], contents_of: ContentsOf
    ) -> None:
        self.found = found
        self.stages = stages
        self.contents_of = contents_of

    def judge_words(self) -> None:
        """Judges words and inputs that hold code in other languages."""
        fed = [text for each in self.found.command.inputs for text in self._texts_of(each)]
        words = (*self.found.command.words[1:], *given_texts(fed))
        for stage in self.stages:
            self._judge_by_signs(words, stage.chart.program.foreign)
            for word in running_scripts(stage):
                self.found.start_foreign(word.span)

    def judge_file(self, file: Word) -> bool:
        """Judges the text that the line writes to a file that the command runs; returns whether the file may
        be standard input."""
        held = self.contents_of(file)
        if held.texts:
            fed = tuple(map(piped, held.texts))
            self._judge_input(fed, f"`{self.found.name}` runs `{file.source}`, which this line writes")
            for stage in self.stages:
                self._judge_by_signs(held.texts, stage.chart.program.foreign)
                self._judge_by_signs(held.texts, stage.chart.program.script_runs)
            self._note(fed)
        return any(is_standard_input(source, self.found.command.directories) for source in held.copied_from)

    def judge_loaded(self, name: str) -> None:
        """Judges a file that the program loads by itself. Accepted: text that programs print there is
        unknown."""
        file = literal_word(name, self.found.command.span)
        held = [text for text in self.contents_of(file).texts if text.parts != unknown_text(text.span).parts]
        if not held:
            return
        fed = tuple(map(piped, held))
        if any(text.literal is None for text in held):
            why = f"`{self.found.name}` obeys `{name}`, which this line writes"
            self.found.start_unknown(why, self.found.command.span, is_data=True)
        self._note(fed)

    def _note(self, fed: tuple[Redirection, ...]) -> None:
        """Lets rules search the input for commands that it may run."""
        command = self.found.command
        traits = command.traits | {Trait.RUNS_CODE}
        self.found.command = replace(command, redirections=command.redirections + fed, traits=traits)

    def judge_standard_input(self) -> None:
        command = self.found.command
        fed = tuple(text for each in command.inputs for text in self._texts_of(each))
        more = tuple(each for each in fed if each not in command.redirections)
        self.found.command = replace(command, redirections=command.redirections + more)
        self._judge_input(fed, f"`{self.found.name}` runs what it reads from standard input")

    def _judge_by_signs(self, texts: Iterable[Word], pattern: str) -> None:
        for text in texts if pattern else ():
            if re.search(pattern, known_text(text)):
                self.found.start_foreign(text.span)

    def _texts_of(self, given: Redirection) -> tuple[Redirection, ...]:
        """An input, and the texts of a file that the line writes. The file itself still counts: another file
        may have this name, and it may have held more before."""
        texts = self.contents_of(given.target).texts if not is_text(given) else ()
        return (given, *map(piped, texts))

    def _judge_input(self, fed: tuple[Redirection, ...], why: str) -> None:
        if not self._are_known_texts(fed):
            is_script = self.found.runs.stdin == "script"
            is_data = is_script and Trait.INTERPRETER not in self.stages[-1].chart.program.traits
            self.found.start_unknown(why, self.found.command.span, is_data=is_data)

    def _are_known_texts(self, fed: tuple[Redirection, ...]) -> bool:
        """Whether the line holds all the code that it runs; shell code is judged as any text."""
        found, reads = self.found, self.found.runs.stdin
        if reads in ("script", ""):
            return not any(is_made_by_a_command(each, found.command.directories) for each in fed)
        if reads == "foreign":
            return False
        if reads == "login" and not fed:
            return True
        texts = given_texts(fed)
        found.texts += [ShellText(t.literal, t.span, found.via) for t in texts if t.literal is not None]
        return bool(texts) and len(texts) == len(fed) and all(text.literal is not None for text in texts)
