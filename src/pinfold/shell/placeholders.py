"""Words that a program fills in before it starts a command: `xargs -I{}`, `find -exec rm {}`.

Only the running program knows what it fills in. This module decides where the program looks for it, and
whether the program acts on all that it finds: `find . -name x -delete` acts on some of what is below `.`,
`find . -delete` on everything. `effects` and `unwrap` decide what the program does with it.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from pinfold.model.script import Computed, Part, Text, Word, known_text, literal_word
from pinfold.model.text_positions import Span
from pinfold.shell.options import CommandStage, GivenOption
from pinfold.shell.programs import Runs


def is_narrowed(stage: CommandStage) -> bool:
    """Whether the program acts only on some of the files it finds."""
    if "!" in stage.chart.program.ignored:
        return _is_expression_narrowed(stage)
    first = stage.chart.program.narrowing.get("first")
    by_name = first is not None and not any(given.option.takes == "first" for given in stage.arguments.given)
    if by_name and (words := stage.arguments.operands[:1]) and _narrows_by(first or "", words[0]):
        return True
    return not _may_be_taken_back(stage) and any(_narrows(given, stage) for given in stage.arguments.given)


def _may_be_taken_back(stage: CommandStage) -> bool:
    """Whether an unknown option may undo another, as `--no-dry-run` does `--dry-run`."""
    return bool(stage.arguments.doubts) or not all(given.listed for given in stage.arguments.given)


def _narrows(given: GivenOption, stage: CommandStage) -> bool:
    values = stage.chart.program.narrowing.get(given.name)
    return values is not None and (not values or _narrows_by(values, given.value))


def _narrows_by(values: str, value: Word | None) -> bool:
    """Whether a value narrows. A computed value counts as narrowing, as a computed place counts as some
    place."""
    text = value.literal if value is not None else ""
    return text is None or bool(re.fullmatch(values, text))


def _is_expression_narrowed(stage: CommandStage) -> bool:
    """Whether every action of find has a test before it that excludes some files.

    Facts about find: it joins tests by `and` and stops at the first that fails. So only tests before an
    action count, in its own branch of `-o` and `,` or outside of its parentheses. A negated test excludes
    little.
    """
    outer: list[tuple[bool, bool, bool]] = []
    branch, every, negated = False, True, False
    for given in stage.arguments.given:
        term: bool | None = None
        match given.name:
            case "!" | "-not":
                negated = not negated
            case "-o" | "-or" | ",":
                branch, every = False, every and branch
            case "(":
                outer.append((branch, every, negated))
                branch, every, negated = False, True, False
            case ")" if outer:
                term = every and branch
                branch, every, negated = outer.pop()
            case _ if given.option.makes or given.option.runs:
                if not (branch or any(level[0] for level in outer)):
                    return False
            case _:
                term = _narrows(given, stage)
        if term is not None:
            branch, negated = branch or (term and not negated), False
    return bool(stage.arguments.given)


def search_places(stage: CommandStage) -> tuple[Word, ...]:
    """The directories in which the program looks for files."""
    table = stage.chart.program.operands
    words = stage.arguments.operands
    if table.first and not any(given.option.takes == "first" for given in stage.arguments.given):
        words = words[1:]
    return words or (literal_word(table.default or ".", Span(0, 0)),)


def some_of(word: Word) -> Word:
    """A path below the place that `word` names, but never the place itself."""
    found = Computed("what the program finds", quoted=True, may_be_empty=False)
    return Word(word.source, word.span, (*word.parts, Text("/"), found))


FILLED_IN = Computed("what the program fills in", quoted=True)
INPUT = "${1:?}"
"""The placeholder's replacement in a text that a shell will read."""


def filled(words: tuple[Word, ...], runs: Runs, given: Sequence[GivenOption], span: Span) -> tuple[Word, ...]:
    """A command's words with every placeholder marked as computed, or with the words that are appended."""
    options = _choosing(given)
    chosen = [each.value.literal for each in options if each.value is not None]
    placeholder = chosen[-1] or "{}" if chosen else runs.placeholder
    found = tuple(_fill(word, placeholder) for word in words) if placeholder else words
    if runs.extra and not options and found == words:
        found += (Word("...", span, (Computed(runs.extra, quoted=False),)),)
    return found


def with_found(words: tuple[Word, ...], runs: Runs, stage: CommandStage, span: Span) -> tuple[Word, ...]:
    """The words after `-exec` and the like: a found path begins with the directory of the search."""
    marks = runs.placeholder.split()
    if runs.extra and not any(mark in known_text(word) for mark in marks for word in words):
        words = (*words, literal_word(marks[0], span))
    found: list[Word] = []
    for word in words:
        mark = next((mark for mark in marks if mark in known_text(word)), "")
        if word.literal == mark:
            found += [_found_in(stage, place, word) for place in search_places(stage)]
        else:
            found.append(_fill(word, mark) if mark else word)
    return tuple(found)


def with_inputs(words: tuple[Word, ...], runs: Runs, given: Sequence[GivenOption]) -> tuple[Word, ...]:
    """The words of a shell text with an input in the place of every placeholder, or appended.

    Facts about GNU parallel: inputs come after `:::`, or from standard input. Without a command, each input
    is one. A placeholder that an option chooses counts beside the usual ones.
    """
    chosen = [each.value.literal for each in _choosing(given) if each.value is not None]
    placeholder = "|".join([runs.placeholder, *(re.escape(text) for text in chosen if text)])
    command = tuple(takewhile(lambda word: not word.start.startswith(":::"), words))
    if not command:
        return words
    texts = [word.literal for word in command]
    found = tuple(
        word if text is None else literal_word(re.sub(placeholder, lambda _: INPUT, text), word.span)
        for word, text in zip(command, texts, strict=True)
    )
    return found if found != command else (*command, literal_word(INPUT, command[-1].span))


def _choosing(given: Sequence[GivenOption]) -> list[GivenOption]:
    """The options that choose the placeholder."""
    return [each for each in given if "placeholder" in each.option.role]


def _found_in(stage: CommandStage, place: Word, mark: Word) -> Word:
    parts = some_of(place).parts if is_narrowed(stage) else (*place.parts, FILLED_IN)
    return Word(mark.source, mark.span, parts)


def _fill(word: Word, placeholder: str) -> Word:
    """The word with every placeholder in it marked as computed."""
    parts: list[Part] = []
    for part in word.parts:
        if not isinstance(part, Text) or placeholder not in part.text:
            parts.append(part)
            continue
        for index, text in enumerate(part.text.split(placeholder)):
            parts += [FILLED_IN] if index else []
            parts += [Text(text)] if text else []
    return Word(word.source, word.span, tuple(parts))
