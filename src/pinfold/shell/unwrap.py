"""A command completed, and the commands and shell texts inside it brought to light.

`unwrap` looks the program up, lets `options` sort its words and `effects` say what they do, and then
decides what else the command starts: `timeout 5 rm x` is `rm x`, `bash -c '...'` is a text to be
parsed. Only `parse` repeats this until nothing is wrapped any more. Where it cannot be known
what is started, an `Unknown` says so; nothing is ever left out silently.

No program is known by name here; `data/` says how each one starts others.
"""

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.script import Assignment, Command, Computed, Hazard, Redirection, Trait, Unknown, Word
from pinfold.model.text import Span
from pinfold.shell.dialects import reads_alike
from pinfold.shell.effects import (
    complete,
    lenient,
    running_scripts,
    uncharted,
)
from pinfold.shell.filling import filled, with_found, with_inputs
from pinfold.shell.findings import MAX_DEPTH, ShellText
from pinfold.shell.inputs import (
    given_texts,
    is_made_by_a_command,
    is_standard_input,
    is_stream,
    is_text,
    piped,
)
from pinfold.shell.options import Given, Stage, drop, literal_word, resolve
from pinfold.shell.programs import Runs, chart, may_start, program_name, spelled_out
from pinfold.shell.quotes import split_like_env
from pinfold.shell.stand_ins import file_as_program, module_as_program, package_name
from pinfold.shell.telling_variables import told_by
from pinfold.shell.variables import assignment_hazards, declaration_hazards, declared
from pinfold.shell.written import NOTHING as NOTHING_HELD
from pinfold.shell.written import Held, Written

NOTHING = Runs()
MAX_COPIES = 8
"""Of so many files at most a file is taken for a copy."""
HeldBy = Callable[[Word], Held]
"""Says what a file holds that the line itself writes."""


class Unwrapped(Struct, frozen=True):
    command: Command
    inner: tuple[Command, ...] = ()
    texts: tuple[ShellText, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    written: tuple[Written, ...] = ()


def unwrap(
    command: Command, held_by: HeldBy = lambda _: NOTHING_HELD, *, sets_path: bool = False
) -> Unwrapped:
    """What a simple command does and what else it starts. Total: any words get an answer.

    `sets_path` says that the line changes where programs are looked for, so that any file may be one.
    """
    found = _unwrapped(command, held_by)
    written = _written(found.command)
    runs_file = bool(command.words) and (sets_path or "/" in command.words[0].source)
    held = held_by(command.words[0]) if runs_file else NOTHING_HELD
    inner = tuple(_run_by_its_first_line(text, command) for text in held.texts)
    for source in held.sources[:MAX_COPIES]:
        found = _by_another_name(found, replace(command, words=(source, *command.words[1:])), held_by)
    found = replace(found, inner=inner + found.inner, written=written) if written or inner else found
    if command.words and command.words[0].file_name is not None and command.words[0].literal is None:
        first = command.words[0]
        why = f"which file `{first.source}` is, is only known when it runs"
        return replace(found, unknowns=(Unknown(why, first.span, False), *found.unknowns))
    return found


def _written(command: Command) -> tuple[Written, ...]:
    if not command.redirections and not command.writes:
        return ()
    from pinfold.shell.outputs import written_by  # most commands write no file

    return tuple(written_by(command))


def _run_by_its_first_line(text: Word, command: Command) -> Command:
    """What the kernel, or else the shell, makes of a file that is run as a program: `#!/bin/sh`."""
    first, _, _ = text.start.partition("\n")
    words = first[2:].split() if first.startswith("#!") else []
    names = tuple(literal_word(name, text.span) for name in (*(words or ["bash"]), "/dev/stdin"))
    via = (*command.via, command.words[0].source)
    return replace(command, words=names, redirections=(piped(text),), via=via)


def _unwrapped(command: Command, held_by: HeldBy) -> Unwrapped:
    if not command.words:
        hazards = command.hazards + assignment_hazards(command.assignments)
        told = told_by(command.assignments, command.via)
        command = replace(command, hazards=tuple(dict.fromkeys(hazards)))
        return Unwrapped(command, texts=told.texts, unknowns=told.unknowns)
    first = command.words[0]
    written = first.literal if first.literal is not None else first.file_name
    if written is None:
        why = f"`{first.source}` is only known to be a program when it runs"
        return Unwrapped(replace(command, program=""), unknowns=(Unknown(why, first.span, True),))
    name = program_name(written)
    known = chart(name)
    if known is None:
        return _uncharted(command, name, held_by)
    stages = resolve(known, command.words[1:])
    more = declared(name, command.words[1:], command.assignments)
    unwrapping = _Unwrapping(replace(command, assignments=command.assignments + more), name, stages, held_by)
    return unwrapping.unwrapped(more)


def _uncharted(command: Command, name: str, held_by: HeldBy) -> Unwrapped:
    words = tuple(literal_word(word, command.words[0].span) for word in spelled_out(name))
    inner = replace(command, words=words + command.words[1:], via=(*command.via, name))
    told = told_by(() if command.via else command.assignments, command.via)
    inners = (inner,) if words else ()
    found = Unwrapped(uncharted(command, name), inner=inners, texts=told.texts, unknowns=told.unknowns)
    package = package_name(name)
    if package == name:
        return found
    plain = literal_word(package, command.words[0].span)
    return _by_another_name(found, replace(command, words=(plain, *command.words[1:])), held_by)


def _by_another_name(found: Unwrapped, other: Command, held_by: HeldBy) -> Unwrapped:
    """All that the other one would start is started, and deny and ask rules that speak of it are asked."""
    first = other.words[0]
    if first.literal is None and first.file_name is None:
        return replace(found, command=_also(found.command, uncharted(other, "")))
    more = _unwrapped(other, held_by)
    return replace(
        found,
        command=_also(found.command, more.command),
        inner=found.inner + more.inner,
        texts=found.texts + more.texts,
        unknowns=found.unknowns + more.unknowns,
    )


def _also(command: Command, other: Command) -> Command:
    further = command.stands_for
    return replace(command, stands_for=other if further is None else _also(further, other))


class _Unwrapping:
    def __init__(self, command: Command, name: str, stages: tuple[Stage, ...], held_by: HeldBy) -> None:
        self.name = name
        self.held_by = held_by
        self.stages = stages
        self.command = complete(command, name, stages)
        self.via = (*command.via, name)
        self.places = self.command.directories
        self.runs = stages[-1].chart.program.runs or NOTHING
        self.given = tuple(given for stage in stages for given in stage.arguments.given)
        self.operands = stages[-1].arguments.operands
        last = stages[-1].arguments.given
        self.unlisted = [given for given in last if not given.listed and given.value is None]
        self.inner: list[Command] = []
        self.texts: list[ShellText] = []
        self.unknowns: list[Unknown] = []
        self.hazards: list[Hazard] = []

    def unwrapped(self, declared: tuple[Assignment, ...]) -> Unwrapped:
        self._subcommand()
        self._code()
        for given in self.given:
            self._option(given)
            if given.option.module and given.value is not None:
                self._stand_for(module_as_program(given.value), self.operands)
            if given.option.variable and given.value is not None:
                self.hazards += assignment_hazards((_assignment(given.value),))
        if not any(given.option.runs == "none" for given in self.given):
            self._operands()
        if any(given.option.goes_on and _is_code(given.option.goes_on, given.value) for given in self.given):
            self._standard_input()
        # What a wrapper was given reaches what it wraps, but is told once.
        self._tell(declared if self.command.via else self.command.assignments, self.command.via)
        self.hazards += declaration_hazards(self.name, self.operands)
        command = replace(
            self.command, hazards=tuple(dict.fromkeys(self.command.hazards + tuple(self.hazards)))
        )
        if self._is_transparent(command):
            command = replace(command, traits=command.traits | {Trait.TRANSPARENT})
        return Unwrapped(command, tuple(self.inner), tuple(self.texts), tuple(self.unknowns))

    def _is_transparent(self, command: Command) -> bool:
        """Only a wrapper that surely wraps, and whose own words are all harmless, may go without cover."""
        asks = any(given.option.runs == "none" for given in self.given)  # `command -v x` only looks
        starts = self.inner or self.texts or self.unknowns or asks
        return bool(self.runs.transparent and starts and not command.hazards)

    def _stand_for(self, program: Word, operands: tuple[Word, ...]) -> None:
        """A module or a file of code is a program: what that does and starts, this command does."""
        command = self.command
        if len(self.via) > MAX_DEPTH:  # a module may run modules
            self.unknowns.append(Unknown("too many programs inside of each other", command.span, True))
            return
        other = Command(
            words=(program, *operands),
            span=command.span,
            text=command.text,
            redirections=command.inputs,
            directories=command.directories,
            via=self.via,
        )
        found = _by_another_name(Unwrapped(replace(command, stands_for=None)), other, self.held_by)
        self.inner += found.inner
        self.texts += found.texts
        self.unknowns += found.unknowns
        meant = found.command.stands_for or command
        self.command = replace(
            _also(command, meant),
            reads=command.reads + meant.reads,
            reads_below=command.reads_below or meant.reads_below,
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
                why = f"which `{stage.chart.name}` command this is, is only known when it runs"
                self.unknowns.append(Unknown(why, word.span, True))
            elif stage.chart.child(name) is None and not self._alias(stage, name):
                if program.unknown_subcommand:
                    self.hazards.append(Hazard(program.unknown_subcommand, word.span, name))
                if self._is_interpreter:
                    self._stand_for(file_as_program(word), stage.arguments.operands[1:])

    def _alias(self, stage: Stage, name: str) -> bool:
        """`git -c alias.p=push p` is `git push`."""
        for given in stage.arguments.given:
            text = given.value.literal if given.value is not None else None
            key, _, meaning = (text or "").partition("=")
            if not given.option.alias or key.lower() != f"{given.option.alias}{name}".lower():
                continue
            rest = stage.arguments.operands[1:]
            if meaning.startswith("!"):
                self._text_of((literal_word(meaning[1:], given.word.span), *rest), given.word.span)
            else:
                words = _listed(literal_word(meaning, given.word.span), given.option.between or r"\s+")
                self._start((self.command.words[0], *words, *rest))
            return True
        return False

    # Options

    def _option(self, given: Given) -> None:
        if given.option.settings:
            self._setting(given)
        if given.option.code and given.value is not None and _is_code(given.option.code, given.value):
            self._foreign(given.word.span)
        if given.option.script and given.value is not None:
            self._script(given.value)
            if is_stream(given.value, self.places):
                self._foreign(given.word.span)
        match given.option.runs:
            case "shell" if given.value is not None:
                value = given.value
                if given.option.strip:
                    if not value.start.startswith(given.option.strip):
                        return
                    value = drop(value, len(given.option.strip))
                self._text_of((value,), given.word.span)
            case "split" if given.value is not None:
                self._split(given.value, given.command)
            case "argv":
                words = with_found(given.command, self.runs, self.stages[-1], self.command.words[0].span)
                self._start(words, anywhere=given.option.anywhere)
            case "foreign":
                self._foreign(given.word.span)
            case "alike":
                self._alike(given.value or next(iter(self.operands), given.word))

    def _alike(self, text: Word) -> None:
        """Text for another shell, which may be one that reads as bash does."""
        if text.literal is not None and reads_alike(text.literal):
            self._text_of((text,), text.span)
        else:
            self._foreign(text.span)

    def _setting(self, given: Given) -> None:
        """`git -c core.pager='less -S'`: shell text, for the keys that are known to hold it."""
        text = given.value.start if given.value is not None else ""
        key, equals, _ = text.partition("=")
        if equals and given.value is not None and re.fullmatch(given.option.settings, key):
            value = drop(given.value, len(key) + 1)
            if given.option.between and value.literal is not None:
                self._start(_listed(value, given.option.between))
                return
            self._text_of((drop(value, 1) if value.start.startswith("!") else value,), given.word.span)

    def _code(self) -> None:
        """Words and texts that hold code which is not the shell's."""
        if not any(stage.chart.program.foreign or stage.chart.program.script_runs for stage in self.stages):
            return
        fed = [text for each in self.command.inputs for text in self._texts_of(each)]
        words = (*self.command.words[1:], *given_texts(fed))
        for stage in self.stages:
            if pattern := stage.chart.program.foreign:
                for word in words:
                    if re.search(pattern, lenient(word)):
                        self._foreign(word.span)
            for word in running_scripts(stage):
                self._foreign(word.span)

    def _code_in(self, scripts: tuple[Word, ...]) -> None:
        """Scripts that are files: the same signs tell what may run anything."""
        for stage in self.stages:
            for pattern in filter(None, (stage.chart.program.foreign, stage.chart.program.script_runs)):
                for script in scripts:
                    if re.search(pattern, lenient(script)):
                        self._foreign(script.span)

    def _split(self, value: Word, rest: tuple[Word, ...]) -> None:
        texts = split_like_env(value.literal) if value.literal is not None else None
        if texts is None:
            why = f"how `{self.name}` splits `{value.source}` is only known when it runs"
            self.unknowns.append(Unknown(why, value.span, True))
            return
        words = tuple(literal_word(text, value.span) for text in texts)
        self._start((self.command.words[0], *words, *rest))

    def _foreign(self, span: Span) -> None:
        self.unknowns.append(
            Unknown(f"code for `{self.name}` cannot be judged by the rules of bash", span, True)
        )

    # Operands

    def _operands(self) -> None:
        kind = self._kind()
        if kind == "split":
            return
        skips = kind in ("argv", "shell", "first") or self.runs.stdin == "script"
        words = self.operands[self.runs.skip :] if skips else self.operands
        words = (*(g.value for g in self.given if g.option.program and g.value is not None), *words)
        assignments, words = self._assignments(words)
        doubts = self.stages[-1].arguments.doubts
        if kind in ("argv", "shell") and self.unlisted and words:
            why = f"what `{self.unlisted[0].name}` takes is not known, nor which command `{self.name}` starts"
            self.unknowns.append(Unknown(why, self.unlisted[0].word.span, True))
        if self.runs.stdin == "script":
            # Its operands are files, databases and the like: only what the line itself makes is doubted.
            doubts = tuple(word for word in doubts if any(isinstance(part, Computed) for part in word.parts))
        if kind == "argv" and self._stands_before_the_command(doubts):
            self._start_as_with_an_option(doubts[0])
            why = f"what `{doubts[0].source}` is to `{self.name}` is only known when it runs"
            self.unknowns.append(Unknown(why, doubts[0].span, False))
        elif kind and doubts:
            why = f"`{doubts[0].source}` may change which command `{self.name}` starts"
            self.unknowns.append(Unknown(why, doubts[0].span, True, self.runs.stdin == "script"))
        is_input = bool(words and self.runs.stdin and is_standard_input(words[0], self.places))
        if words and self.runs.stdin and not kind:
            is_input |= self._script(words[0])
            copied = self.held_by(words[0]).sources[:MAX_COPIES]
            for file in (words[0], *copied) if not is_input and self._is_interpreter else ():
                self._stand_for(file_as_program(file), words[1:])
        if not words or kind == "stdin" or is_input:
            self._without_operands(kind)
        if not words or kind == "stdin" or (is_input and words[0].literal is not None):
            return
        match kind:
            case "argv":
                words = (*(literal_word(n, words[0].span) for n in self.runs.program.split()), *words)
                words = filled(words, self.runs, self.given, self.command.words[0].span)
                self._start(words, assignments)
            case "shell":
                text = with_inputs(words, self.runs, self.given) if self.runs.extra else words
                self._text_of(text, words[0].span)
            case "each":
                for word in words:
                    self._text_of((word,), word.span)
            case "first" if words[0].literal != "-":
                self._text_of(words[:1], words[0].span)
            case "foreign":
                self._foreign(words[0].span)
            case _ if self.runs.stdin == "script":
                if is_stream(words[0], self.places):
                    self._foreign(words[0].span)
                elif _is_code_file(words[0]):
                    self._start(words)
            case _ if self.runs.stdin and (
                words[0].known({"HOME": "~"}) is None or is_stream(words[0], self.places)
            ):
                why = f"which script `{self.name}` runs is only known when it runs"
                self.unknowns.append(Unknown(why, words[0].span, True))

    @property
    def _is_interpreter(self) -> bool:
        return any(Trait.INTERPRETER in stage.chart.program.traits for stage in self.stages)

    def _stands_before_the_command(self, doubts: tuple[Word, ...]) -> bool:
        """`docker exec "$ID" npm test`: one word, and no option that it may be starts anything by itself."""
        named = self.operands[: self.runs.skip]
        is_one = len(doubts) == 1 and doubts[0] in named and not doubts[0].splits
        options = [option for _, option in self.stages[-1].chart.spellings.values()]
        return is_one and not self.unlisted and not any(may_start(option) for option in options)

    def _start_as_with_an_option(self, doubt: Word) -> None:
        """The word may be an option, or one that takes the next word: what the words without it would be."""
        words = self.command.words
        at = words.index(doubt)
        for after in (at + 1, at + 2):
            self._start(words[:at] + words[after:])

    def _kind(self) -> str:
        """What the operands are to this command: an option may have changed it."""
        kinds = {"rest": "argv", "first": "first", "stdin": "stdin", "split": "split"}
        for given in self.given:
            if given.option.runs in kinds:
                return kinds[given.option.runs]
        return self.runs.operands

    def _assignments(self, words: tuple[Word, ...]) -> tuple[tuple[Assignment, ...], tuple[Word, ...]]:
        taken: list[Assignment] = []
        while self.runs.assignments and words and "=" in words[0].start:
            if words[0].source.startswith("="):
                self._start(words)  # to zsh it is the path of a program
            name = words[0].start.partition("=")[0]
            value = drop(words[0], len(name) + 1)
            taken.append(Assignment(name, words[0].span, value, exported=True))
            words = words[1:]
        if not words:
            self.hazards += assignment_hazards(tuple(taken))
        return tuple(taken), words

    def _without_operands(self, kind: str) -> None:
        if self.runs.alone:
            self.hazards.append(Hazard(self.runs.alone, self.command.span, self.name))
        starts = (
            self.texts or self.inner or any(given.option.runs in ("foreign", "alike") for given in self.given)
        )
        if (self.runs.stdin or kind == "stdin") and not starts:
            self._standard_input()

    def _script(self, file: Word) -> bool:
        """A file that it runs: a text which the line writes there is judged; whether it is standard input."""
        held = self.held_by(file)
        if held.texts:
            fed = tuple(map(piped, held.texts))
            self._judge_input(fed, f"`{self.name}` runs `{file.source}`, which this line writes")
            self._code_in(held.texts)
            traits = self.command.traits | {Trait.RUNS_CODE}
            self.command = replace(self.command, redirections=self.command.redirections + fed, traits=traits)
        return any(is_standard_input(source, self.places) for source in held.sources)

    def _standard_input(self) -> None:
        fed = tuple(text for each in self.command.inputs for text in self._texts_of(each))
        more = tuple(each for each in fed if each not in self.command.redirections)
        self.command = replace(self.command, redirections=self.command.redirections + more)
        self._judge_input(fed, f"`{self.name}` runs what it reads from standard input")

    def _texts_of(self, given: Redirection) -> tuple[Redirection, ...]:
        """An input, and where it is a file which the line writes, what that may hold besides: by its name
        alone it may be another file, and it may have held more before."""
        texts = self.held_by(given.target).texts if not is_text(given) else ()
        return (given, *map(piped, texts))

    def _judge_input(self, fed: tuple[Redirection, ...], why: str) -> None:
        if not self._are_known_texts(fed):
            is_data = (
                self.runs.stdin == "script" and Trait.INTERPRETER not in self.stages[-1].chart.program.traits
            )
            self.unknowns.append(Unknown(why, self.command.span, True, is_data))

    def _are_known_texts(self, fed: tuple[Redirection, ...]) -> bool:
        """Whether what it runs is all written in the line; a shell's is judged as any text."""
        if self.runs.stdin in ("script", ""):
            return not any(is_made_by_a_command(each, self.places) for each in fed)
        texts = given_texts(fed)
        if self.runs.stdin == "foreign":
            return False
        if self.runs.stdin == "login" and not fed:
            return True
        self.texts += [ShellText(t.literal, t.span, self.via) for t in texts if t.literal is not None]
        return bool(texts) and len(texts) == len(fed) and all(text.literal is not None for text in texts)

    # What is started

    def _start(
        self, words: tuple[Word, ...], assignments: tuple[Assignment, ...] = (), *, anywhere: bool = False
    ) -> None:
        if not words:
            return
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        outer = tuple(replace(a, exported=True) for a in self.command.assignments)
        lost = anywhere or self.runs.remote
        self._tell(assignments, self.via)
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

    def _tell(self, assignments: tuple[Assignment, ...], via: tuple[str, ...]) -> None:
        told = told_by(assignments, via)
        self.texts += told.texts
        self.unknowns += told.unknowns

    def _text_of(self, words: tuple[Word, ...], span: Span) -> None:
        """Words that a shell gets joined by spaces."""
        texts = [word.literal for word in words]
        if all(text is not None for text in texts):
            joined = " ".join(text for text in texts if text is not None)
            self.texts.append(ShellText(joined, words[0].span if len(words) == 1 else span, self.via))
        else:
            why = f"what `{self.name}` is told to run is only known when it runs"
            self.unknowns.append(Unknown(why, span, True))


def _listed(value: Word, between: str) -> tuple[Word, ...]:
    """The words of a list."""
    return tuple(literal_word(each, value.span) for each in re.split(between, value.literal or "") if each)


def _is_code_file(file: Word) -> bool:
    known = chart(program_name(file.literal)) if file.literal else None
    return known is not None and known.program.code_file


def _is_code(pattern: str, value: Word | None) -> bool:
    text = value.literal if value is not None else ""
    return text is None or re.fullmatch(pattern, text) is not None


def _assignment(name: Word) -> Assignment:
    return Assignment(name.literal or "", name.span, exported=True)
