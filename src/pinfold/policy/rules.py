"""Whether a rule matches a command, and which rules of a long list may match it.

The two kinds of rule are read in opposite ways, so that a doubt always falls to the careful side:

- A **restrictive** rule (deny, ask) compares canonical forms: the program's plain name, its options
  in any spelling and order, its operands with or without options between them.
- A **permissive** rule (allow, safe, an exclusion) compares the words exactly as a prefix, and a
  program given by a path is the named one only in the system's own directories.
"""

import re
from collections.abc import Iterator
from itertools import dropwhile

from pinfold.model.script import SOME_NAME, Command, Hazard, Shape, Text, Trait, Word
from pinfold.model.settings import Rule
from pinfold.policy.rule_operands import RuleMatch, has_no_further_goal, operands_among, operands_match

SYSTEM_DIRECTORIES = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
)

# What may come before a command in a text for a shell, or around such a text in one for something else.
# This is no parser: it does not find a command behind `env`, or with quotes in it. Only the sandbox holds
# that.
BEFORE_A_COMMAND = r"""(?:\(shell\s|[;&|(){}`'"\n=!])+"""
# In a file that is fed to a program: after a key of YAML, too, and before the recipes of make.
BEFORE_A_COMMAND_IN_A_FILE = r"""(?:\(shell\s|:\s|(?:^|(?<=\n))[ \t]*[-@+]+|[;&|(){}`'"\n=!])+"""
# Between the words of a list in many languages: `["git", "push"]`, `"git", ["push"]`,
# `"git", { args: ["push"] }`; and a quoted blank.
BETWEEN_WORDS = r"""["'`]\s*,\s*(?:\{\s*args\s*:\s*)?\[?\s*["'`]|\\(?=[ \t])"""


def restrictive_match(shape: Shape, command: Command) -> RuleMatch:
    """Whether a deny or ask rule matches this command, under any of its names, in any of its spellings."""
    found = max((_says(each, command) for each in (shape, *shape.also)), key=_value)
    if found is RuleMatch.YES or command.stands_for is None:
        return found
    return max(found, restrictive_match(shape, command.stands_for), key=_value)


def _value(match: RuleMatch) -> int:
    return match.value


def _says(shape: Shape, command: Command) -> RuleMatch:
    if not shape.is_doubtful:
        return _match(shape, command)
    if shape.program != command.program:
        return RuleMatch.NO
    return min(RuleMatch.MAYBE, _match(shape, command), key=_value)


def _match(shape: Shape, command: Command) -> RuleMatch:
    if _begins(_literals(command), shape.words):
        return RuleMatch.YES  # word by word
    match = RuleMatch.NO
    if shape.program == command.program:
        match = min(_flags_match(shape, command), operands_match(shape, command), key=_value)
    elif _may_wrap(shape, command) or _may_be(shape, command):
        match = RuleMatch.MAYBE
    return RuleMatch.MAYBE if match is RuleMatch.NO and _may_obey(shape, command) else match


def may_be_told(shape: Shape, command: Command) -> bool:
    """Whether a command may run a program that the rule names, because its words or variables contain it."""
    return any(
        each.program != command.program and (_may_wrap(each, command) or _may_obey(each, command))
        for each in (shape, *shape.also)
    )


def _may_obey(shape: Shape, command: Command) -> bool:
    """Many programs take options, commands and code from variables: `TAR_OPTIONS='-I "git push"' tar cf x`.

    Code in a language that is not read here is looked through in the same way.
    """
    told = [assigned.value for assigned in command.assignments if assigned.exported and assigned.value]
    fed = [each.target for each in command.inputs] if Trait.RUNS_CODE in command.traits else []
    told += command.words[1:] if Trait.RUNS_CODE in command.traits else ()
    return any(_may_hold(shape, word) for word in (*told, *fed)) or any(
        _may_hold(shape, word, BEFORE_A_COMMAND_IN_A_FILE) for word in fed
    )


def _may_be(shape: Shape, command: Command) -> bool:
    """A file that is not known may be the program if its words are: `python "$(which pip)" install x`."""
    is_some_file = not command.program and Trait.UNCHARTED in command.traits
    told = bool(shape.operands) and set(shape.flags) <= set(command.flags)
    return is_some_file and told and operands_among(shape.operands, command.words[1:]) is RuleMatch.YES


def _may_wrap(shape: Shape, command: Command) -> bool:
    """A program nothing is known of may start what it is given: `x git push`, and `x 'git push'`."""
    if not command.traits & {Trait.UNCHARTED, Trait.PASSES_ON}:
        return False
    given = _literals(command)
    has_flags = set(shape.flags) <= _spelled_flags(given)  # asked once, where the words are many
    is_own = Trait.UNCHARTED not in command.traits and not shape.operands
    own = _place_of(command.operands[0], command) if is_own and command.operands else None  # `helm rm x`
    if has_flags and any(
        _may_start(shape, command.words, given, at) for at in range(1, len(given)) if at != own
    ):
        return True
    # The program may be such a text itself: wrappers differ in what they make of a single word.
    inputs = (each.target for each in command.inputs)
    return any(_may_hold(shape, word) for word in (*command.words, *inputs))


def _place_of(operand: Word, command: Command) -> int | None:
    """The index of an operand among the command's words, if it is one of them."""
    places = (at for at, word in enumerate(command.words) if at and word.span == operand.span)
    return next(places, None)


def _may_hold(shape: Shape, word: Word, before: str = BEFORE_A_COMMAND) -> bool:
    """Whether this one word, read as a text to run, contains a command that the rule matches."""
    return any(
        _may_start(shape, words, tuple(word.source for word in words), 0)
        for words in _commands_in(word, shape.program, before)
    )


def _may_start(shape: Shape, words: tuple[Word, ...], given: tuple[str | None, ...], at: int) -> bool:
    """Whether the words from there on, `given` being their values, are what the rule speaks of."""
    first = given[at]
    return (
        first is not None
        and first.rpartition("/")[2] == shape.program
        and operands_among(shape.operands, words[at + 1 :]) is not RuleMatch.NO
        and set(shape.flags) <= _spelled_flags(given[at + 1 :])
    )


def _commands_in(word: Word, program: str, before: str) -> Iterator[tuple[Word, ...]]:
    """The words of each command of this program that a shell might read in this one word.

    Every rule asks anew, and a text may have thousands of commands: of the others no words are made.
    """
    text = "".join(part.text if isinstance(part, Text) else SOME_NAME for part in word.parts)
    if program not in text or not any(blank in text for blank in " \t,"):
        return
    for piece in re.split(before, re.sub(BETWEEN_WORDS, " ", text)):
        if program not in piece:
            continue
        words = list(dropwhile(lambda each: each.startswith("-"), piece.split()))
        while len(words) > 1 and words[0] == words[1]:
            words.pop(0)  # a program's file and its own name for itself: `execvp("git", ["git", "push"])`
        if words and words[0].rpartition("/")[2] == program:
            yield tuple(Word(each, word.span, (Text(each),)) for each in words)


def _spelled_flags(words: tuple[str | None, ...]) -> set[str]:
    """The options among these words, clusters also taken apart."""
    options = [word for word in words if word and word.startswith("-")]
    letters = {f"-{letter}" for word in options if not word.startswith("--") for letter in word[1:]}
    return letters | {word.partition("=")[0] for word in options}


def _flags_match(shape: Shape, command: Command) -> RuleMatch:
    missing = set(shape.flags) - set(command.flags)
    if not missing:
        return RuleMatch.YES
    if command.traits & {Trait.UNCHARTED, Trait.PASSES_ON} and all(
        any(_may_mean(flag, given) for given in command.flags) for flag in missing
    ):
        return RuleMatch.MAYBE
    return RuleMatch.MAYBE if any(_hides_options(word) for word in command.words[1:]) else RuleMatch.NO


def _may_mean(flag: str, given: str) -> bool:
    """An option that no chart lists may be a beginning of another one, or have one dash for two."""
    name, short = flag.lstrip("-"), given.lstrip("-")
    return flag.startswith("--") and given.startswith("-") and len(short) > 1 and name.startswith(short)


def _hides_options(word: Word) -> bool:
    return word.literal is None and word.may_be_option


def names(shape: Shape, command: Command) -> bool:
    """Whether a permissive rule's words are the beginning of this command, literally, and it has no further
    goals."""
    begins = Trait.REDEFINED not in command.traits and _begins(_literals(command), shape.words)
    return begins and has_no_further_goal(shape, command)


def _literals(command: Command) -> tuple[str | None, ...]:
    return tuple(word.literal for word in command.words)


def _begins(given: tuple[str | None, ...], wanted: tuple[str, ...]) -> bool:
    if not given or given[0] is None or len(given) < len(wanted):
        return False
    return _is_program(given[0], wanted[0]) and given[1 : len(wanted)] == wanted[1:]


def _is_program(given: str, wanted: str) -> bool:
    if given == wanted:
        return True
    directory, slash, name = given.rpartition("/")
    return bool(slash) and name == wanted and directory in SYSTEM_DIRECTORIES


def goes_by_its_name(command: Command) -> bool:
    """Whether it is the program whose chart it has: found by that name, or in a system directory.

    A file of the project's may be called as a wrapper is, and `env2` may be anything.
    """
    given = command.words[0].literal if command.words else None
    return given is not None and _is_program(given, command.program)


def covering_rule(command: Command, rules: tuple[Rule, ...]) -> Rule | None:
    """The permissive rule that covers this very command with all it does, if there is one."""
    if Trait.REDEFINED in command.traits or writes_somewhere(command):
        return None
    given = _literals(command)
    for rule in rules:
        begins = _begins(given, rule.shape.words) and has_no_further_goal(rule.shape, command)
        if begins and all(_accepts(rule.shape, hazard) for hazard in command.hazards):
            return rule
    return None


def _accepts(shape: Shape, hazard: Hazard) -> bool:
    """Whether the rule itself names what makes the command hazardous, in any spelling."""
    return bool(hazard.option) and hazard.option in (*shape.words, *shape.flags)


def writes_somewhere(command: Command) -> bool:
    """Whether a redirection of it writes a file; a command rule speaks of the command alone."""
    return any(redirection.writes and not is_sink(redirection.target) for redirection in command.redirections)


SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"})


def is_sink(word: Word) -> bool:
    """Whether writing there changes nothing."""
    return word.literal in SINKS


MOST_COMPARED_ONE_BY_ONE = 16
"""So many rules are compared one by one."""
MOST_KEPT = 16
_BETWEEN = re.compile(r"""[\s;&|(){}`'"=!,/\\\[\]]+""")
_AROUND = "-@+:"
"""Before the recipes of make, and after a key of YAML."""
_TOLD = frozenset({Trait.UNCHARTED, Trait.PASSES_ON, Trait.RUNS_CODE})
_kept: dict[int, tuple[tuple[Rule, ...], "RuleIndex"]] = {}


class RuleIndex:
    """The rules of a list that may match a command, found by its program.

    A list may have thousands of rules, and a line hundreds of commands. Each command is compared only with
    the rules whose program it names, by its own name or anywhere in what it may pass on.

    INVARIANT: every rule that `restrictive_match` calls a match is among the candidates
    (tests/policy/test_rule_index.py). So `_BETWEEN` and `_AROUND` follow the separators used above.
    """

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
        if len(self.rules) <= MOST_COMPARED_ONE_BY_ONE:
            return self.rules
        names: set[str] = set()
        each: Command | None = command
        while each is not None:
            if not each.program and Trait.UNCHARTED in each.traits:
                return self.rules  # a file that may be any program
            names.update(_programs_of(each))
            each = each.stands_for
        found = {place for name in names for place in self._places.get(name, ())}
        return tuple(self.rules[place] for place in sorted(found.union(self._odd)))


def _programs_of(command: Command) -> Iterator[str]:
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
