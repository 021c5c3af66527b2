"""Completes a command, and finds the commands and shell texts inside of it.

`unwrap` looks the program up, lets `options` sort its words and `effects` say what they do, and then decides
what else the command starts: `timeout 5 rm x` is `rm x`, `bash -c '...'` is a text to parse. `parse` repeats
this until no command holds another. Where the started command is unknown, an `Unknown` says so; nothing is
ever left out silently.

This module knows no program by name; `data/` says how each one starts others.
"""

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pinfold.model.script import (
    Assignment,
    Command,
    Computed,
    Hazard,
    Trait,
    Unknown,
    Word,
    drop_start,
    known_text,
    literal_word,
)
from pinfold.shell.canonical_names import file_as_program, module_as_program, package_name, service_of
from pinfold.shell.effects import complete, uncharted
from pinfold.shell.findings import MAX_DEPTH
from pinfold.shell.options import CommandStage, GivenOption, resolve
from pinfold.shell.placeholders import filled, with_found, with_inputs
from pinfold.shell.program_variables import texts_in_variables
from pinfold.shell.programs import Runs, chart, may_start, program_name, spelled_out
from pinfold.shell.started_commands import (
    StartedCommands,
    Unwrapped,
    changed_by,
    is_code,
    is_code_file,
    run_by_its_first_line,
    stand_for,
    with_unseen_arguments,
)
from pinfold.shell.stdin import given_texts, is_standard_input, is_stream
from pinfold.shell.variables import assignment_hazards, declaration_hazards, declared
from pinfold.shell.written_files import NOTHING as NOTHING_HELD
from pinfold.shell.written_files import ContentsOf, WrittenFile

if TYPE_CHECKING:
    from pinfold.shell.inline_code import InlineCode

NOTHING = Runs()
MAX_COPIES = 8
"""The most files that a file is taken for a copy of."""


def unwrap(
    command: Command, contents_of: ContentsOf = lambda _: NOTHING_HELD, *, sets_path: bool = False
) -> Unwrapped:
    """What a simple command does and what else it starts. Total: any words get a result.

    `sets_path` says that the line changes PATH, so that any file may be the program.
    """
    found = _unwrapped(command, contents_of)
    written = _written(found.command)
    # `uv run` and others take the name of a file in the working directory for a program.
    may_be_here = sets_path or bool(command.via)
    runs_file = bool(command.words) and (may_be_here or "/" in command.words[0].source)
    held = contents_of(command.words[0]) if runs_file else NOTHING_HELD
    inner = tuple(run_by_its_first_line(text, command) for text in held.texts)
    for source in held.copied_from[:MAX_COPIES]:
        found = _by_another_name(found, replace(command, words=(source, *command.words[1:])), contents_of)
    found = replace(found, inner=inner + found.inner, written=written) if written or inner else found
    if command.words and command.words[0].file_name is not None and command.words[0].literal is None:
        first = command.words[0]
        why = f"the directory of `{first.source}` is only known when the line runs"
        return replace(found, unknowns=(Unknown(why, first.span, False), *found.unknowns))
    return found


def _written(command: Command) -> tuple[WrittenFile, ...]:
    if not command.redirections and not command.writes:
        return ()
    from pinfold.shell.known_output import written_by  # most commands write no file

    return tuple(written_by(command))


def _unwrapped(command: Command, contents_of: ContentsOf) -> Unwrapped:
    if not command.words:
        hazards = command.hazards + assignment_hazards(command.assignments)
        told = texts_in_variables(command.assignments, command.via)
        command = replace(command, hazards=tuple(dict.fromkeys(hazards)))
        return Unwrapped(command, texts=told.texts, unknowns=told.unknowns)
    first = command.words[0]
    written = first.literal if first.literal is not None else first.file_name
    if written is None:
        why = f"`{first.source}` may be any program"
        return Unwrapped(replace(command, program=""), unknowns=(Unknown(why, first.span, True),))
    name = program_name(written)
    if service := service_of(written):
        words = (literal_word("service", first.span), literal_word(service, first.span), *command.words[1:])
        return _by_another_name(
            Unwrapped(uncharted(command, name)), replace(command, words=words), contents_of
        )
    known = chart(name)
    if known is None:
        return _uncharted(command, name, contents_of)
    command = with_unseen_arguments(command, known.program.argument_files)
    stages = resolve(known, command.words[1:])
    more = declared(name, command.words[1:], command.assignments)
    unwrapping = _Unwrapping(
        replace(command, assignments=command.assignments + more), name, stages, contents_of
    )
    return unwrapping.unwrapped(more)


def _uncharted(command: Command, name: str, contents_of: ContentsOf) -> Unwrapped:
    words = tuple(literal_word(word, command.words[0].span) for word in spelled_out(name))
    inner = replace(command, words=words + command.words[1:], via=(*command.via, name))
    told = texts_in_variables(() if command.via else command.assignments, command.via)
    inners = (inner,) if words else ()
    found = Unwrapped(uncharted(command, name), inner=inners, texts=told.texts, unknowns=told.unknowns)
    package = package_name(name)
    if package == name:
        return found
    plain = literal_word(package, command.words[0].span)
    return _by_another_name(found, replace(command, words=(plain, *command.words[1:])), contents_of)


def _by_another_name(found: Unwrapped, other: Command, contents_of: ContentsOf) -> Unwrapped:
    """Adds all that another command starts which this one also is; deny and ask rules match both."""
    first = other.words[0]
    if first.literal is None and first.file_name is None:
        return replace(found, command=stand_for(found.command, uncharted(other, "")))
    more = _unwrapped(other, contents_of)
    return replace(
        found,
        command=stand_for(found.command, more.command),
        inner=found.inner + more.inner,
        texts=found.texts + more.texts,
        unknowns=found.unknowns + more.unknowns,
    )


class _Unwrapping:
    def __init__(
        self, command: Command, name: str, stages: tuple[CommandStage, ...], contents_of: ContentsOf
    ) -> None:
        self.name = name
        self.contents_of = contents_of
        self.stages = stages
        self.runs = stages[-1].chart.program.runs or NOTHING
        self.found = StartedCommands(complete(command, name, stages), name, self.runs)
        self.places = self.found.command.directories
        self.given = tuple(given for stage in stages for given in stage.arguments.given)
        self.operands = stages[-1].arguments.operands
        last = stages[-1].arguments.given
        self.unlisted = [given for given in last if not given.listed and given.value is None]
        self.changed = tuple(each for given in self.given for each in changed_by(given))
        """Variables that its options set or unset."""
        self.hazards: list[Hazard] = []

    def unwrapped(self, declared: tuple[Assignment, ...]) -> Unwrapped:
        self._subcommand()
        if any(stage.chart.program.foreign or stage.chart.program.script_runs for stage in self.stages):
            self._code().judge_words()
        for name in dict.fromkeys(name for stage in self.stages for name in stage.chart.loads):
            self._code().judge_loaded(name)
        self._judge_fed_script()
        for given in self.given:
            self._option(given)
            if given.option.module and given.value is not None:
                self._stand_for(module_as_program(given.value), self.operands)
        self.hazards += assignment_hazards(self.changed)
        if not any(given.option.runs == "none" for given in self.given):
            self._operands()
        if any(given.option.goes_on and is_code(given.option.goes_on, given.value) for given in self.given):
            self._code().judge_standard_input()
        # A wrapper's assignments reach the wrapped command too, but are judged once.
        found, command = self.found, self.found.command
        found.add_variables(declared if command.via else command.assignments, command.via)
        self.hazards += declaration_hazards(self.name, self.operands)
        command = replace(command, hazards=tuple(dict.fromkeys(command.hazards + tuple(self.hazards))))
        if self._is_transparent(command):
            command = replace(command, traits=command.traits | {Trait.TRANSPARENT})
        return Unwrapped(command, tuple(found.inner), tuple(found.texts), tuple(found.unknowns))

    def _judge_fed_script(self) -> None:
        """Adds hazards of a script on standard input, as for one among the operands."""
        table = self.stages[-1].chart.program.operands
        if self.runs.stdin == "script" and table.unsafe:
            texts = given_texts(self.found.command.inputs)
            self.hazards += [
                Hazard(table.why, t.span) for t in texts if re.search(table.unsafe, known_text(t))
            ]

    def _code(self) -> "InlineCode":
        from pinfold.shell.inline_code import InlineCode  # most commands run none

        return InlineCode(self.found, self.stages, self.contents_of)

    def _is_transparent(self, command: Command) -> bool:
        """Whether the command needs no allow rule: it certainly wraps another, and its own words are
        harmless."""
        asks = any(given.option.runs == "none" for given in self.given)  # `command -v x` only looks
        starts = self.found.inner or self.found.texts or self.found.unknowns or asks
        return bool(self.runs.transparent and starts and not command.hazards)

    def _stand_for(self, program: Word, operands: tuple[Word, ...]) -> None:
        """Adds all that a program does and starts which a module or a file of code is."""
        command = self.found.command
        if len(self.found.via) > MAX_DEPTH:  # a module may run modules
            self.found.start_unknown("too many programs inside of each other", command.span)
            return
        other = Command(
            words=(program, *operands),
            span=command.span,
            text=command.text,
            redirections=command.inputs,
            directories=command.directories,
            via=self.found.via,
        )
        more = _by_another_name(Unwrapped(replace(command, stands_for=None)), other, self.contents_of)
        self.found.inner += more.inner
        self.found.texts += more.texts
        self.found.unknowns += more.unknowns
        meant = more.command.stands_for or command
        self.found.command = replace(
            stand_for(command, meant),
            reads=command.reads + meant.reads,
            reads_below=command.reads_below or meant.reads_below,
            follows_links=command.follows_links or meant.follows_links,
            writes=command.writes + meant.writes,
            deletes=command.deletes + meant.deletes,
            hazards=command.hazards + meant.hazards,
            traits=command.traits | (meant.traits & {Trait.CHANGES_PINFOLD}),
        )

    # Subcommands

    def _subcommand(self) -> None:
        for stage in self.stages:
            program = stage.chart.program
            if not stage.chart.has_subcommands or not stage.arguments.operands:
                continue
            word = stage.arguments.operands[0]
            name = word.literal
            if name is None or stage.arguments.doubts:
                why = f"the `{stage.chart.name}` subcommand is only known when the line runs"
                self.found.start_unknown(why, word.span)
            elif stage.chart.child(name) is None and not self.found.start_alias(stage, name):
                if program.unknown_subcommand:
                    self.hazards.append(Hazard(program.unknown_subcommand, word.span, name))
                if self._is_interpreter:
                    self._code().judge_file(word)
                    self._stand_for(file_as_program(word), stage.arguments.operands[1:])

    # Options

    def _option(self, given: GivenOption) -> None:
        if given.option.settings:
            self.found.start_setting(given)
        if given.option.code and given.value is not None and is_code(given.option.code, given.value):
            self.found.start_foreign(given.word.span, is_data=given.option.is_rarely_code)
        if given.option.script and given.value is not None:
            self._code().judge_file(given.value)
            if is_stream(given.value, self.places):
                self.found.start_foreign(given.word.span)
        match given.option.runs:
            case "shell" if given.value is not None:
                value = given.value
                if given.option.strip:
                    if not value.start.startswith(given.option.strip):
                        return
                    value = drop_start(value, len(given.option.strip))
                self.found.start_text((value,), given.word.span)
            case "split" if given.value is not None:
                self.found.start_split(given.value, given.command)
            case "argv":
                first = self.found.command.words[0]
                words = with_found(given.command, self.runs, self.stages[-1], first.span)
                self.found.start(words, anywhere=given.option.anywhere)
            case "foreign":
                self.found.start_foreign(given.word.span)
            case "alike":
                self.found.start_if_read_alike(given.value or next(iter(self.operands), given.word))

    # Operands

    def _operands(self) -> None:
        kind = self._operands_run_as()
        if kind == "split":
            return
        if self.runs.swapped and len(self.operands) > 1:
            name, verb, *rest = self.operands
            self._stand_for(literal_word(self.runs.program, name.span), (verb, name, *rest))
        skips = kind in ("argv", "shell", "first") or self.runs.stdin == "script"
        words = self.operands[self.runs.skip :] if skips else self.operands
        words = (*(g.value for g in self.given if g.option.program and g.value is not None), *words)
        assignments, words = self._assignments(words)
        doubts = self.stages[-1].arguments.doubts
        if kind in ("argv", "shell") and self.unlisted and words:
            why = f"`{self.unlisted[0].name}` is unknown, and so is the command that `{self.name}` starts"
            self.found.start_unknown(why, self.unlisted[0].word.span)
        if self.runs.stdin == "script":
            # Its operands are files, databases and the like: only values that the line computes are doubts.
            doubts = tuple(word for word in doubts if any(isinstance(part, Computed) for part in word.parts))
        if kind == "argv" and self._precedes_the_command(doubts):
            self._start_as_with_an_option(doubts[0])
            why = (
                f"whether `{doubts[0].source}` is an option of `{self.name}` is only known when the line runs"
            )
            self.found.unknowns.append(Unknown(why, doubts[0].span, False))
        elif kind and doubts:
            why = f"`{doubts[0].source}` may change which command `{self.name}` starts"
            self.found.start_unknown(why, doubts[0].span, is_data=self.runs.stdin == "script")
        is_input = bool(words and self.runs.stdin and is_standard_input(words[0], self.places))
        if words and self.runs.stdin and not kind:
            is_input |= self._code().judge_file(words[0])
            copied = self.contents_of(words[0]).copied_from[:MAX_COPIES]
            for file in (words[0], *copied) if not is_input and self._is_interpreter else ():
                self._stand_for(file_as_program(file), words[1:])
        if not words or kind == "stdin" or is_input:
            self._without_operands(kind)
        if not words or kind == "stdin" or (is_input and words[0].literal is not None):
            return
        match kind:
            case "argv":
                words = (*(literal_word(n, words[0].span) for n in self.runs.program.split()), *words)
                words = filled(words, self.runs, self.given, self.found.command.words[0].span)
                self.found.start(words, self.changed + assignments)
            case "shell":
                text = with_inputs(words, self.runs, self.given) if self.runs.extra else words
                self.found.start_text(text, words[0].span)
            case "each":
                for word in words:
                    self.found.start_text((word,), word.span)
            case "first" if words[0].literal != "-":
                self.found.start_text(words[:1], words[0].span)
            case "foreign":
                self.found.start_foreign(words[0].span)
            case _ if self.runs.stdin == "script":
                if is_stream(words[0], self.places):
                    self.found.start_foreign(words[0].span)
                elif is_code_file(words[0]):
                    self.found.start(words)
            case _ if self.runs.stdin and (
                words[0].known({"HOME": "~"}) is None or is_stream(words[0], self.places)
            ):
                why = f"which script `{self.name}` runs is only known when the line runs"
                self.found.start_unknown(why, words[0].span)

    @property
    def _is_interpreter(self) -> bool:
        return any(Trait.INTERPRETER in stage.chart.program.traits for stage in self.stages)

    def _precedes_the_command(self, doubts: tuple[Word, ...]) -> bool:
        """Whether the only doubt is one word before the command, which no option of the program could start:
        `docker exec "$ID" npm test`."""
        named = self.operands[: self.runs.skip]
        is_one = len(doubts) == 1 and doubts[0] in named and not doubts[0].splits
        options = [option for _, option in self.stages[-1].chart.spellings.values()]
        return is_one and not self.unlisted and not any(may_start(option) for option in options)

    def _start_as_with_an_option(self, doubt: Word) -> None:
        """Starts what the words mean if the doubt is an option, with or without a value."""
        words = self.found.command.words
        at = words.index(doubt)
        for after in (at + 1, at + 2):
            self.found.start(words[:at] + words[after:])

    def _operands_run_as(self) -> str:
        """How the program runs its operands, which an option may change."""
        kinds = {"rest": "argv", "first": "first", "stdin": "stdin", "split": "split"}
        for given in self.given:
            if given.option.runs in kinds:
                return kinds[given.option.runs]
        return self.runs.operands

    def _assignments(self, words: tuple[Word, ...]) -> tuple[tuple[Assignment, ...], tuple[Word, ...]]:
        taken: list[Assignment] = []
        while self.runs.assignments and words and "=" in words[0].start:
            if words[0].source.startswith("="):
                self.found.start(words)  # to zsh it is the path of a program
            name = words[0].start.partition("=")[0]
            value = drop_start(words[0], len(name) + 1)
            taken.append(Assignment(name, words[0].span, value, exported=True))
            words = words[1:]
        if not words:
            self.hazards += assignment_hazards(tuple(taken))
        return tuple(taken), words

    def _without_operands(self, kind: str) -> None:
        if self.runs.alone:
            self.hazards.append(Hazard(self.runs.alone, self.found.command.span, self.name))
        runs_code = any(given.option.runs in ("foreign", "alike") for given in self.given)
        starts = self.found.texts or self.found.inner or runs_code
        if (self.runs.stdin or kind == "stdin") and not starts:
            self._code().judge_standard_input()
