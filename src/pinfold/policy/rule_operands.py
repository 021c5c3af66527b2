"""Whether the operands of a command are those that a rule asks for.

Most programs take operands by their place: `git push origin`. Some take several of a kind (`systemctl stop
a b`), and to a builder each is a goal by itself (`make test deploy`).
"""

import re
from enum import Enum
from posixpath import normpath

from pinfold.model.script import Command, Goals, Shape, Trait, Word

ADDING = "([ugo]*)[+]([rwxst]+)"
"""A rule's operand that asks what a mode adds."""
CLAUSE = "([ugoa]*)([-+=])([rwxXst]*)"
PLUGIN = r"^[^:]+:(?:maven-([^:]+)|([^:]+)-maven)-plugin:(?:[0-9][^:]*:)?"
"""A Maven plugin by its whole name: `group:maven-release-plugin:3.0.0:` is `release:`."""


class RuleMatch(Enum):
    """How surely a restrictive rule matches a command."""

    NO = 0
    MAYBE = 1
    """Only if a word that cannot be known has the right value."""
    YES = 2


def operands_match(shape: Shape, command: Command) -> RuleMatch:
    if shape.goals is not None:
        return _goals_match(shape, shape.goals, command)
    found = _by_place(shape.operands, command)
    if Trait.UNCHARTED in command.traits:
        ways = [shape.operands, *((name, *shape.operands[1:]) for name in shape.also_spelled)]
        among = [operands_among(way, command.words[1:]) for way in ways]
        found = max(found, *among, key=lambda match: match.value)
    return RuleMatch.MAYBE if found is RuleMatch.NO and _is_further(shape, command) else found


def _by_place(wanted: tuple[str, ...], command: Command) -> RuleMatch:
    found = RuleMatch.YES
    for position, operand in enumerate(wanted):
        if position >= len(command.operands):
            return RuleMatch.MAYBE if any(word.splits for word in command.words[1:]) else RuleMatch.NO
        given = command.operands[position].literal
        if given is None:
            return RuleMatch.MAYBE
        said = _says(operand, given)
        if said is RuleMatch.NO:
            return said
        found = min(found, said, key=lambda match: match.value)
    return found


def _says(wanted: str, given: str) -> RuleMatch:
    if wanted == given or _adds(wanted, given):
        return RuleMatch.YES
    return _names_path(wanted, given) if "/" in wanted or "/" in given else RuleMatch.NO


def _names_path(wanted: str, given: str) -> RuleMatch:
    """Whether both are a path in two spellings: `./x` is `x`, and `/any/x` or `../x` may be."""
    one, other = normpath(wanted), normpath(given)
    if one == other:
        return RuleMatch.YES
    whole, tail = (one, other) if one.startswith(("/", "../")) else (other, one)
    is_doubtful = whole.startswith(("/", "../")) and not tail.startswith("/")
    return RuleMatch.MAYBE if is_doubtful and whole.endswith(f"/{tail}") else RuleMatch.NO


def _adds(wanted: str, given: str) -> bool:
    """Whether a file's mode gives all that the rule's `+x`, `go+w` or `u+s` adds: `755`, `a+x`, `u=rwx`.

    Facts about chmod: without a letter before the sign the umask has a say, so one who gets it is enough.
    """
    if re.fullmatch("[0-7]{3}", wanted) and re.fullmatch("[1-7][0-7]{3}", given):
        return given[1:] == wanted  # as anyone may do as much, with a further bit
    if not (rule := re.fullmatch(ADDING, wanted)):
        return False
    mode = _mode_of(given)
    added = [_bits(letter, rule[2]) for letter in rule[1] or "ugo"]
    held = [bits and mode & bits == bits for bits in added if bits or rule[1]]
    return any(held) if not rule[1] else all(held)


def _mode_of(text: str) -> int:
    """The mode of a file that had none before. 0 for what is no mode."""
    if re.fullmatch("[0-7]{1,5}", text):
        return int(text, 8)
    if not all(re.fullmatch(CLAUSE, clause) for clause in text.split(",")):
        return 0
    mode = 0
    for letters, sign, names in (re.fullmatch(CLAUSE, clause).groups() for clause in text.split(",")):  # type: ignore[union-attr]
        bits = 0
        for letter in (letters or "a").replace("a", "ugo"):
            bits |= _bits(letter, names)
        mode = mode & ~bits if sign == "-" else mode | bits
    return mode


def _bits(letter: str, names: str) -> int:
    shift = {"u": 6, "g": 3, "o": 0}
    of_all = {"s": {"u": 0o4000, "g": 0o2000}.get(letter, 0), "t": 0o1000}
    bits = 0
    for name in names:
        bits |= of_all[name] if name in of_all else {"r": 4, "w": 2, "x": 1, "X": 1}[name] << shift[letter]
    return bits


def operands_among(wanted: tuple[str, ...], words: tuple[Word, ...]) -> RuleMatch:
    """Of a program unknown to us: a word after an option may be its value."""
    if not wanted:
        return RuleMatch.YES
    after_option = False
    for position, word in enumerate(words):
        given = word.literal
        if given is None:
            return RuleMatch.MAYBE
        if given.startswith("-"):
            after_option = True
            continue
        if _says(wanted[0], given) is RuleMatch.YES:
            return operands_among(wanted[1:], words[position + 1 :])
        if not after_option:
            return RuleMatch.NO
        after_option = False
    return RuleMatch.NO


def _is_further(shape: Shape, command: Command) -> bool:
    """Whether the rule's operands are among several of a kind, in their order."""
    start = shape.several_from
    if start is None or len(shape.operands) <= start:
        return False
    given = [word.literal for word in command.operands]
    if tuple(given[:start]) != shape.operands[:start]:
        return False
    left = iter(given[start:])
    return all(wanted in left for wanted in shape.operands[start:])


def _goals_match(shape: Shape, goals: Goals, command: Command) -> RuleMatch:
    """Every goal of the rule has to be among those of the command, wherever."""
    is_certain = Trait.UNCHARTED not in command.traits
    given = command.operands if is_certain else command.words[1:]
    found = [_goal_among(wanted, given, goals) for wanted in shape.operands]
    return min(found, key=lambda match: match.value, default=RuleMatch.YES)


def _goal_among(wanted: str, given: tuple[Word, ...], goals: Goals) -> RuleMatch:
    texts = [word.literal for word in given if word.literal is not None]
    if any(_is_goal(wanted, text, goals) for text in texts):
        return RuleMatch.YES
    may_be = goals.abbreviated and any(_abbreviates(text, wanted, goals) for text in texts)
    return RuleMatch.MAYBE if may_be or len(texts) < len(given) else RuleMatch.NO


def _is_goal(wanted: str, given: str, goals: Goals) -> bool:
    if _says(wanted, given) is RuleMatch.YES or wanted == re.sub(PLUGIN, r"\1\2:", given):
        return True
    return bool(goals.between) and (
        wanted in re.split(goals.between, given) or re.split(goals.between, wanted)[-1] == given
    )


def _abbreviates(given: str, wanted: str, goals: Goals) -> bool:
    """Facts about Gradle: each hump of a name may be cut short, and a name that is there means itself."""
    short, whole = (re.split(goals.between or "$^", name)[-1] for name in (given, wanted))
    if not short or short in goals.common:
        return False
    humps = re.findall(r"[A-Z0-9]?[^A-Z0-9-]*", short)
    return re.match(r"[^A-Z]*".join(re.escape(hump) for hump in humps if hump), whole) is not None


def has_no_further_goal(shape: Shape, command: Command) -> bool:
    """An allow rule for `make test` says nothing of `make test deploy`; one for `make` says all."""
    if shape.goals is None or not shape.operands:
        return True
    return {word.literal for word in command.operands} <= set(shape.operands)
