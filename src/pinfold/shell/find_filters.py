"""Programs that act on what they find: where they look, and whether they act on all of it.

This module decides whether something between the place and the deed picks: `find . -name x -delete` acts on
some of what is below `.`, `find . -delete` on everything. What the deed is, is `effects`' and `unwrap`'s
business.
"""

import re

from pinfold.model.locations import Span
from pinfold.model.script import Computed, Text, Word
from pinfold.shell.options import Given, Stage, literal_word


def is_narrowed(stage: Stage) -> bool:
    """Whether the program acts only on some of what it finds."""
    if "!" in stage.chart.program.ignored:
        return _is_expression_narrowed(stage)
    first = stage.chart.program.narrowing.get("first")
    by_name = first is not None and not any(given.option.takes == "first" for given in stage.arguments.given)
    if by_name and (words := stage.arguments.operands[:1]) and _narrows_by(first or "", words[0]):
        return True
    return not _may_be_taken_back(stage) and any(_narrows(given, stage) for given in stage.arguments.given)


def _may_be_taken_back(stage: Stage) -> bool:
    """Whether an option that nobody knows may undo another, as `--no-dry-run` does `--dry-run`."""
    return bool(stage.arguments.doubts) or not all(given.listed for given in stage.arguments.given)


def _narrows(given: Given, stage: Stage) -> bool:
    values = stage.chart.program.narrowing.get(given.name)
    return values is not None and (not values or _narrows_by(values, given.value))


def _narrows_by(values: str, value: Word | None) -> bool:
    """A value that is computed is taken for one that picks, as a computed place is for some place."""
    text = value.literal if value is not None else ""
    return text is None or bool(re.fullmatch(values, text))


def _is_expression_narrowed(stage: Stage) -> bool:
    """Whether every action of find's has a test before it that not everything passes.

    Facts about find: tests are joined by `and`, which ends at the first that fails, so only those before
    an action count, in its own branch of `-o` and `,` or outside of its parentheses. A negated test
    leaves nearly everything.
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


def places(stage: Stage) -> tuple[Word, ...]:
    """Where the program looks for what it then gives to a command."""
    table = stage.chart.program.operands
    words = stage.arguments.operands
    if table.first and not any(given.option.takes == "first" for given in stage.arguments.given):
        words = words[1:]
    return words or (literal_word(table.default or ".", Span(0, 0)),)


def some_of(word: Word) -> Word:
    """Something below the place that `word` names, but never all of it."""
    found = Computed("what the program finds", quoted=True, may_be_empty=False)
    return Word(word.source, word.span, (*word.parts, Text("/"), found))
