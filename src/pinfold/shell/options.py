"""The words after a program, and after each of its subcommands: options, their values and operands.

This module decides what `getopt` would: where a cluster ends, which word is a value, where options stop. It
knows a program only through its chart. `doubts` holds each word that only the shell can compute and that the
program might take for an option. `effects` and `unwrap` decide what follows from a doubt.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.script import Computed, Glob, Text, Variable, Word, drop_start, literal_word
from pinfold.model.text_positions import Span
from pinfold.shell.canonical_names import FORMS, in_one_form
from pinfold.shell.programs import Chart, Option, is_risky

NUMBER = r"-[0-9]+"
UNLISTED = Option()
ONLY_INFORM = frozenset({"-h", "--help", "-v", "-V", "--version", "-?"})


class GivenOption(Struct, frozen=True):
    """One option on a command line, with its value."""

    names: tuple[str, ...]
    """Its canonical spelling; several where an abbreviation is ambiguous, the risky one first."""
    option: Option
    word: Word
    value: Word | None = None
    listed: bool = True
    command: tuple[Word, ...] = ()
    """The words after it that form a command (`find -exec`)."""

    @property
    def name(self) -> str:
        return self.names[0]


class Arguments(Struct, frozen=True):
    given: tuple[GivenOption, ...]
    operands: tuple[Word, ...]
    doubts: tuple[Word, ...]


class CommandStage(Struct, frozen=True):
    """The program or one subcommand of a command, with the options and operands that belong to it."""

    chart: Chart
    arguments: Arguments
    implied: tuple[str, ...] = ()
    """The options that its operands imply, as they are written."""


def may_inject(word: Word) -> bool:
    """Whether the shell may expand the word to an option, or to several words."""
    if word.literal is not None:
        return False
    splits = any(isinstance(part, Variable | Computed) and not part.quoted for part in word.parts)
    return splits or word.may_be_option


def resolve(top: Chart, words: tuple[Word, ...], *, is_rule: bool = False) -> tuple[CommandStage, ...]:
    """The program and its subcommands, each with its own words. A rule gets no default subcommand."""
    stages: list[CommandStage] = []
    here = top
    while here.has_subcommands:
        arguments = _without_skipped(here, sort_words(here, words, stop=True))
        if here.program.without and not is_rule:
            arguments = _with_default_subcommand(here, arguments)
        stages.append(CommandStage(here, arguments))
        if not arguments.operands or (name := arguments.operands[0].literal) is None:
            return tuple(stages)
        words = arguments.operands[1:]
        if (canonical := here.canonical(name)) != name:
            named = literal_word(canonical, arguments.operands[0].span)
            stages[-1] = CommandStage(here, replace(arguments, operands=(named, *words)))
            name = canonical
        child = here.child(name)
        here = child if child is not None else here.stranger(name)
    found = sort_words(here, words)
    stages.append(CommandStage(here, _in_one_form(here, found), _implied(here, found)))
    return tuple(stages)


def _without_skipped(chart: Chart, found: Arguments) -> Arguments:
    """Counts a word before the subcommand, such as `beta` in `gcloud beta run`, as an option."""
    while found.operands and found.operands[0].literal in chart.program.skips:
        word, *rest = found.operands
        more = sort_words(chart, tuple(rest), stop=True)
        skipped = GivenOption((word.literal or "",), UNLISTED, word)
        given = (*found.given, skipped, *more.given)
        found = Arguments(given, more.operands, found.doubts + more.doubts)
    return found


def _with_default_subcommand(chart: Chart, found: Arguments) -> Arguments:
    if found.operands or found.doubts or any(given.name in ONLY_INFORM for given in found.given):
        return found
    span = found.given[0].word.span if found.given else Span(0, 0)
    return replace(found, operands=(literal_word(chart.program.without, span),))


def _in_one_form(chart: Chart, found: Arguments) -> Arguments:
    """The arguments with operands in one form that may be written in several ways."""
    table = chart.program.operands
    if not {*table.first.split(), *table.rest.split()} & FORMS:
        return found
    has_first = bool(table.first) and not any(given.option.takes == "first" for given in found.given)
    roles = [table.first if has_first and not at else table.rest for at in range(len(found.operands))]
    told = (_spelled(word, role) for word, role in zip(found.operands, roles, strict=True))
    return replace(found, operands=tuple(told))


def _spelled(word: Word, roles: str) -> Word:
    text = word.literal
    if text is None or (form := in_one_form(roles.split(), text)) == text:
        return word
    return literal_word(form, word.span)


def _implied(chart: Chart, found: Arguments) -> tuple[str, ...]:
    return tuple(
        name
        for name, pattern in chart.program.implied.items()
        if any(re.search(pattern, word.start) for word in found.operands)
    )


def sort_words(chart: Chart, words: tuple[Word, ...], *, stop: bool = False) -> Arguments:
    """Sort `words`, which follow the program; with `stop`, options end at the first operand."""
    return _Sorter(chart, words, stop or chart.style == "posix").sort()


class _Sorter:
    def __init__(self, chart: Chart, words: tuple[Word, ...], stop: bool) -> None:
        self.chart = chart
        self.words = list(words)
        self.stop = stop
        runs = chart.program.runs
        # How many operands may lie between options before the words belong to another program.
        self.before = runs.skip if runs and runs.again else 0
        self.given: list[GivenOption] = []
        self.operands: list[Word] = []
        self.doubts: list[Word] = []
        self._last: Word | None = None

    def sort(self) -> Arguments:
        if self.chart.program.bare:
            self._bare()
        while self.words:
            word = self.words.pop(0)
            if word.literal == "--":
                if self._may_be_value():
                    continue
                # INVARIANT: no word after it is an option, even if it expands to one.
                self.operands += self.words
                break
            if word.literal in self.chart.program.ignored:
                self._add_option((word.literal or "",), UNLISTED, word)
                continue
            self._word(word)
            self._last = word
            if self.stop and len(self.operands) > self.before:
                self.operands += self.words
                break
        return Arguments(tuple(self.given), tuple(self.operands), tuple(self.doubts))

    def _may_be_value(self) -> bool:
        """Whether the `--` just met may be the value of an unknown option."""
        last = self.given[-1] if self.given else None
        return bool(last and not last.listed and last.value is None and self._last is last.word)

    def _word(self, word: Word) -> None:
        start = word.start
        program, spellings = self.chart.program, self.chart.spellings
        if self._is_doubtful(word) and not self._is_value_of_known(word):
            self.doubts.append(word)
        if program.slashes and start.startswith("/"):
            self._add_option((start.lower(),), UNLISTED, word)
        elif program.plus and start.startswith("+") and (len(start) > 1 or "+" in spellings):
            self._short(word, "+")
        elif not start.startswith("-") or (word.literal == "-" and "-" not in spellings):
            self.operands.append(word)
        elif word.literal == "-":
            name, option = spellings["-"]
            self._add_option((name,), option, word)
        elif start.startswith("--"):
            self._long(word)
        elif self.chart.style == "single":
            self._single(word)
        elif program.numbers and (re.fullmatch(NUMBER, start) or (len(start) > 3 and start in spellings)):
            name, option = spellings.get(start, (start, UNLISTED))
            self._add_option((name,), option, word)
        else:
            self._short(word, "-")

    def _is_doubtful(self, word: Word) -> bool:
        """Whether it may expand to a risky option. `*.py` never expands to find's `-delete`."""
        if not may_inject(word):
            return False
        last = word.parts[-1]
        if not self.chart.program.exact or not isinstance(last, Text) or word.start:
            return True
        only_globs = all(isinstance(part, Text | Glob) for part in word.parts)
        return not only_globs or any(name.endswith(last.text) for name in self.chart.spellings)

    def _is_value_of_known(self, word: Word) -> bool:
        """Whether the option is known and only its value is computed: `--format=$X` and `-n"$X"`."""
        if any(isinstance(part, Variable | Computed) and not part.quoted for part in word.parts):
            return False
        start = word.start
        if start.startswith("--"):
            return "=" in start
        if self.chart.style == "single":
            return start.partition("=")[0] in self.chart.spellings and len(start) > 1
        found = self.chart.spellings.get(start[:2])
        return bool(found and found[1].value)

    def _long(self, word: Word) -> None:
        name, equals, _ = word.start.partition("=")
        matches = self._abbreviated(name)
        if not matches and self.chart.style == "single":
            matches = self._abbreviated(name[1:])
        if not matches:
            value = drop_start(word, len(name) + 1) if equals else None
            shown = name[1:] if self.chart.style == "single" else name  # most of them take both
            self._add_option((shown,), UNLISTED, word, value, listed=False)
            return
        option = matches[0][1]
        names = tuple(dict.fromkeys(canonical for canonical, _ in matches))
        if equals:
            self._add_option(names, option, word, drop_start(word, len(name) + 1))
        else:
            self._add_option(names, option, word, self._value_of(option))

    def _abbreviated(self, name: str) -> list[tuple[str, Option]]:
        exact = self.chart.spellings.get(name)
        if exact:
            return [exact]
        if len(name) < 3:
            return []
        matches = [self.chart.spellings[long] for long in self.chart.longs if long.startswith(name)]
        return sorted(matches, key=lambda match: not is_risky(match[1]))

    def _single(self, word: Word) -> None:
        start = word.start
        name, equals, _ = start.partition("=")
        spellings = self.chart.spellings
        if start in spellings and (word.literal is not None or len(start) > 2):
            canonical, option = spellings[start]
            self._add_option((canonical,), option, word, self._value_of(option))
        elif equals and name in spellings:
            canonical, option = spellings[name]
            self._add_option((canonical,), option, word, drop_start(word, len(name) + 1))
        else:
            prefixes = [s for s in spellings if spellings[s][1].value and start.startswith(s)]
            if not prefixes:
                self._add_option((name,), UNLISTED, word, listed=False)
                return
            longest = max(prefixes, key=len)
            canonical, option = spellings[longest]
            self._add_option((canonical,), option, word, drop_start(word, len(longest)))

    def _short(self, word: Word, sign: str) -> None:
        if sign == "+" and sign in self.chart.spellings:
            canonical, option = self.chart.spellings[sign]
            self._add_option((canonical,), option, word, drop_start(word, 1))
            return
        letters = word.start[1:]
        for index, letter in enumerate(letters):
            found = self.chart.spellings.get(sign + letter)
            if found is None and sign == "+":
                found = self.chart.spellings.get("-" + letter)
            if found is None:
                self._add_option((sign + letter,), UNLISTED, word, listed=False)
                continue
            canonical, option = found
            if not option.value:
                self._add_option((canonical,), option, word)
                continue
            rest = drop_start(word, index + 2)
            attached = bool(rest.parts) and rest.literal != ""
            self._add_option((canonical,), option, word, rest if attached else self._value_of(option))
            return

    def _bare(self) -> None:
        """Reads options without a dash: in `tar cfz x.tgz` the values of the letters follow in order."""
        if not self.words or not (letters := self.words[0].literal) or letters.startswith("-"):
            return
        word = self.words.pop(0)
        for letter in letters:
            spelling = letter if letter in self.chart.spellings else "-" + letter
            canonical, option = self.chart.spellings.get(spelling, (spelling, UNLISTED))
            listed = spelling in self.chart.spellings
            self._add_option((canonical,), option, word, self._value_of(option), listed=listed)

    def _value_of(self, option: Option) -> Word | None:
        """The word that follows an option as its value, if it takes one."""
        is_number = option.value == "number" and self.words and re.fullmatch(r"[0-9.]+", self.words[0].start)
        return self._next() if option.value is True or is_number else None

    def _next(self) -> Word | None:
        """The next word, as an option's value. A value that may expand to several words stays a doubt."""
        if not self.words:
            return None
        value = self.words.pop(0)
        # A value that looks like a risky option is a doubt too: if a chart is wrong about which options take
        # values, no risky option passes as a value.
        if (value.splits and self._is_doubtful(value)) or self._looks_risky(value.start):
            self.doubts.append(value)
        return value

    def _looks_risky(self, start: str) -> bool:
        if start.startswith("--"):
            return any(is_risky(option) for _, option in self._abbreviated(start.partition("=")[0]))
        found = self.chart.spellings.get(start if self.chart.style == "single" else start[:2])
        return len(start) > 1 and start.startswith("-") and found is not None and is_risky(found[1])

    def _add_option(
        self,
        names: tuple[str, ...],
        option: Option,
        word: Word,
        value: Word | None = None,
        listed: bool = True,
    ) -> None:
        command: tuple[Word, ...] = ()
        for _ in range(option.words - 1):
            value = self._next()
        if option.runs == "argv":
            command = self._command(value, option.until)
            value = None
        if option.runs == "split":
            # The following words belong to those that its value is split into, options and all.
            command = self._command(None, ())
        self.given.append(GivenOption(names, option, word, value, listed, command))
        if option.spells_option and value is not None:
            found = self.chart.spellings.get("-" + (value.literal or "").upper())
            self.given += [GivenOption((found[0],), found[1], word)] if found else []
        if option.runs == "rest":
            self.stop = True
        if option.ends:
            self.operands += self.words
            self.words = []

    def _command(self, first: Word | None, until: tuple[str, ...]) -> tuple[Word, ...]:
        taken: list[Word] = [first] if first else []
        while self.words:
            word = self.words.pop(0)
            if word.literal in until:
                break
            taken.append(word)
        return tuple(taken)
