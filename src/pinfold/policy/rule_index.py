"""The rules of a list that may match a command, found by its program.

A list may have thousands of rules, and a line hundreds of commands: each is compared only with the rules
whose program it names, by its own name or anywhere in what it may pass on.

INVARIANT: whatever `rules.restrictive_match` calls a match is among the candidates
(tests/policy/test_rule_index.py). So `_BETWEEN` and `_AROUND` follow the separators that `rules` knows.
"""

import re
from collections.abc import Iterator

from pinfold.model.script import SOME_NAME, Command, Text, Trait, Word
from pinfold.model.settings import Rule

FEW = 16
"""So many rules are compared one by one."""
MOST_KEPT = 16
_BETWEEN = re.compile(r"""[\s;&|(){}`'"=!,/\\\[\]]+""")
_AROUND = "-@+:"
"""Before the recipes of make, and after a key of YAML."""
_TOLD = frozenset({Trait.UNCHARTED, Trait.PASSES_ON, Trait.RUNS_CODE})
_kept: dict[int, tuple[tuple[Rule, ...], "RuleIndex"]] = {}


class RuleIndex:
    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._places: dict[str, list[int]] = {}
        self._odd: list[int] = []
        """Rules for programs whose name is no single name in a text."""
        for place, rule in enumerate(rules):
            shapes = (rule.shape, *rule.shape.also)
            names = {name for shape in shapes for name in (shape.program, shape.words[0])}
            for name in names | {each.rpartition("/")[2] for each in names}:
                self._places.setdefault(name, []).append(place)
            if any(
                _BETWEEN.search(shape.program) or shape.program.strip(_AROUND) != shape.program
                for shape in shapes
            ):
                self._odd.append(place)

    def candidates(self, command: Command) -> tuple[Rule, ...]:
        """In the order of the list."""
        if len(self.rules) <= FEW:
            return self.rules
        names: set[str] = set()
        each: Command | None = command
        while each is not None:
            if not each.program and Trait.UNCHARTED in each.traits:
                return self.rules  # a file that may be any program
            names.update(_names(each))
            each = each.stands_for
        found = {place for name in names for place in self._places.get(name, ())}
        return tuple(self.rules[place] for place in sorted(found.union(self._odd)))


def _names(command: Command) -> Iterator[str]:
    """The programs that rules for this command may be about."""
    yield command.program
    given = command.words[0].literal if command.words else None
    if given is not None:
        yield given
        yield given.rpartition("/")[2]
    told = [assigned.value for assigned in command.assignments if assigned.exported and assigned.value]
    if command.traits & _TOLD:
        told += [*command.words, *(each.target for each in command.inputs)]
    for word in told:
        for name in _BETWEEN.split(_text(word)):
            yield name
            yield name.strip(_AROUND)


def _text(word: Word) -> str:
    return "".join(part.text if isinstance(part, Text) else SOME_NAME for part in word.parts)


def indexed(rules: tuple[Rule, ...]) -> RuleIndex:
    """The index of a list, kept for as long as settings last."""
    known = _kept.get(id(rules))
    if known is not None and known[0] is rules:
        return known[1]
    if len(_kept) >= MOST_KEPT:
        _kept.clear()
    index = RuleIndex(rules)
    _kept[id(rules)] = (rules, index)
    return index
