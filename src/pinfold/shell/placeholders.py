"""Words that a program fills in itself before it starts what they name: `xargs -I{}`, `find -exec rm {}`.

What it fills in is only known when it runs; where it was found may be known.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from pinfold.model.locations import Span
from pinfold.model.script import Computed, Part, Text, Word
from pinfold.shell.effects import lenient
from pinfold.shell.find_filters import is_narrowed, places, some_of
from pinfold.shell.options import Given, Stage, literal_word
from pinfold.shell.programs import Runs

FILLED_IN = Computed("what the program fills in", quoted=True)
INPUT = "${1:?}"
"""The same in a text that a shell will read."""


def filled(words: tuple[Word, ...], runs: Runs, given: Sequence[Given], span: Span) -> tuple[Word, ...]:
    """A command's words, with every placeholder in them computed, or with what is added at their end."""
    options = _choosing(given)
    chosen = [each.value.literal for each in options if each.value is not None]
    placeholder = chosen[-1] or "{}" if chosen else runs.placeholder
    found = tuple(_fill(word, placeholder) for word in words) if placeholder else words
    if runs.extra and not options and found == words:
        found += (Word("...", span, (Computed(runs.extra, quoted=False),)),)
    return found


def with_found(words: tuple[Word, ...], runs: Runs, stage: Stage, span: Span) -> tuple[Word, ...]:
    """The words after `-exec` and its like: what is found begins with a place where it is looked for."""
    marks = runs.placeholder.split()
    if runs.extra and not any(mark in lenient(word) for mark in marks for word in words):
        words = (*words, literal_word(marks[0], span))
    found: list[Word] = []
    for word in words:
        mark = next((mark for mark in marks if mark in lenient(word)), "")
        if word.literal == mark:
            found += [_found_in(stage, place, word) for place in places(stage)]
        else:
            found.append(_fill(word, mark) if mark else word)
    return tuple(found)


def with_inputs(words: tuple[Word, ...], runs: Runs, given: Sequence[Given]) -> tuple[Word, ...]:
    """The words of a shell text in which every placeholder, or what is added at their end, is an input.

    Facts about GNU parallel: inputs stand after `:::`, or are read. Without a command each is one itself.
    What an option chooses as a placeholder is one beside the usual ones.
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


def _choosing(given: Sequence[Given]) -> list[Given]:
    """The options that say what stands for what is filled in."""
    return [each for each in given if "placeholder" in each.option.role]


def _found_in(stage: Stage, place: Word, mark: Word) -> Word:
    parts = some_of(place).parts if is_narrowed(stage) else (*place.parts, FILLED_IN)
    return Word(mark.source, mark.span, parts)


def _fill(word: Word, placeholder: str) -> Word:
    """The word with every placeholder in it computed."""
    parts: list[Part] = []
    for part in word.parts:
        if not isinstance(part, Text) or placeholder not in part.text:
            parts.append(part)
            continue
        for index, text in enumerate(part.text.split(placeholder)):
            parts += [FILLED_IN] if index else []
            parts += [Text(text)] if text else []
    return Word(word.source, word.span, tuple(parts))
