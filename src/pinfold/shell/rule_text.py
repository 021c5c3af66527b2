"""The text of a rule, in the same canonical form as a command, and its synonyms.

This module decides what a rule's author may write: a program and the words that follow it, with simple
quotes. It starts no parser: a rule is not a shell line. A text that only a shell could understand is an error
that says what to write instead.

A deny or ask rule also covers other words for the same thing: `docker run` is `docker container run`, and
npx is `npm exec`. `data/` holds these facts, each from the program's own help or source. A rule's own shape
has every other spelling of a subcommand or an option already (`options`). `policy` compares shapes with
commands.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec.structs import replace

from pinfold.model.script import Command, Goals, Shape, Trait, Word, literal_word
from pinfold.model.text_positions import Span
from pinfold.shell.effects import uncharted
from pinfold.shell.options import CommandStage, resolve
from pinfold.shell.programs import Chart, Program, chart, program_name

ShapeOf = Callable[[tuple[str, ...]], Shape]


def other_words(rule: Shape, shape_of: ShapeOf) -> tuple[Shape, ...]:
    """All synonyms of the rule, without the rule itself."""
    known = chart(rule.program)
    if known is None:
        return ()
    program = known.program
    ways = [rule, *_by_other_beginnings(rule, known, shape_of)]
    found = [*ways, *(each for way in ways for each in _by_other_programs(way, program, shape_of))]
    names = program.names if rule.program in program.names else ()
    found += [_named(way, name) for way in found for name in names if way.program == rule.program]
    if program.runs and program.runs.swapped and len(rule.operands) > 1:
        name, verb, *rest = rule.operands
        found.append(shape_of((program.runs.program, verb, name, *rest)))
    ours = [way for way in (rule, *found) if way.program == rule.program]
    found += [replace(_named(way, name), is_doubtful=True) for way in ours for name in program.may_be]
    if rule.operands and Trait.INTERPRETER in program.traits and _may_be_started(rule.operands[0]):
        of_file = shape_of((program_name(rule.operands[0]), *rule.operands[1:]))
        # Another directory may have a file of that name.
        is_doubtful = not _is_code_file(rule.operands[0])
        found += [
            replace(each, is_doubtful=is_doubtful) for each in (of_file, *other_words(of_file, shape_of))
        ]
    return tuple(each for each in dict.fromkeys(found) if each != rule)


def _may_be_started(name: str) -> bool:
    """Whether it looks like a file, which may be started by itself, too: `bash x.sh` is `./x.sh`."""
    return "." in name.strip(".") or "/" in name.strip("/") or _is_code_file(name)


def _is_code_file(name: str) -> bool:
    known = chart(program_name(name))
    return known is not None and known.program.code_file


def _named(rule: Shape, name: str) -> Shape:
    return rule if rule.program == name else replace(rule, program=name, words=(name, *rule.words[1:]))


def _by_other_beginnings(rule: Shape, known: Chart, shape_of: ShapeOf) -> Iterator[Shape]:
    program = known.program
    same = tuple(_by_synonyms(rule, program, shape_of))
    yield from same
    for does, others in program.does.items():
        for way in _alternatives(others):
            for each in (rule, *same):
                yield from _instead(each, way, [tuple(does.split())], shape_of)
    if program.unlisted_is and rule.operands:
        first, *rest = rule.operands
        if first == program.unlisted_is and rest and known.child(rest[0]) is None:
            yield from _instead(rule, (first,), [()], shape_of)
        elif known.child(first) is None:
            yield from _instead(rule, (), [(program.unlisted_is,)], shape_of)


def _by_synonyms(rule: Shape, program: Program, shape_of: ShapeOf) -> Iterator[Shape]:
    for ways, begins in _lines(program.same):
        if begins is not None and rule.operands[:1] not in begins:
            continue
        if way := next((way for way in ways if _may_begin(rule, way)), None):
            yield from _instead(rule, way, [other for other in ways if other != way], shape_of)


def _by_other_programs(rule: Shape, program: Program, shape_of: ShapeOf) -> Iterator[Shape]:
    for name, beginning in program.shortcuts.items():
        yield from _begun(rule, shape_of((rule.program, *beginning.split())), shape_of((name,)))
    if program.shortcut_of:
        yield from _begun(rule, shape_of((rule.program,)), shape_of(tuple(program.shortcut_of.split())))


@lru_cache(maxsize=256)
def _lines(same: str) -> tuple[tuple[list[tuple[str, ...]], frozenset[tuple[str, ...]] | None], ...]:
    """The alternatives of each line, and the first operands of rules that one of them fits, if known.

    Cached, since a program may have thousands of rules.
    """
    found = []
    for line in same.splitlines():
        ways = _alternatives(line)
        begins = [tuple(word for word in way if not word.startswith("-"))[:1] for way in ways]
        found.append((ways, frozenset(begins) if all(begins) else None))
    return tuple(found)


def _alternatives(line: str) -> list[tuple[str, ...]]:
    return [tuple(way.split()) for way in line.split("|")]


def _may_begin(rule: Shape, way: tuple[str, ...]) -> bool:
    """A quick test whether the rule may begin with these words, before resolving them by a chart."""
    words = tuple(word for word in way if not word.startswith("-"))
    has_options = len(words) < len(way)
    return rule.operands[: len(words)] == words and (bool(rule.flags) or not has_options)


def _instead(
    rule: Shape, way: tuple[str, ...], others: list[tuple[str, ...]], shape_of: ShapeOf
) -> Iterator[Shape]:
    """The rule with each of the other beginnings, if it has this one."""
    if not _may_begin(rule, way):
        return
    begins = shape_of((rule.program, *way))
    for other in others:
        yield from _begun(rule, begins, shape_of((rule.program, *other)))


def _begun(rule: Shape, begins: Shape, other: Shape) -> Iterator[Shape]:
    count = len(begins.operands)
    if rule.operands[:count] != begins.operands or not set(begins.flags) <= set(rule.flags):
        return
    flags = tuple(flag for flag in rule.flags if flag not in begins.flags)
    operands = rule.operands[count:]
    yield replace(
        other,
        words=(*other.words, *flags, *operands),
        flags=(*other.flags, *flags),
        operands=(*other.operands, *operands),
    )


OPERATORS = frozenset("|&;<>$`()\n")
NEEDS_CARE = OPERATORS | frozenset("\\'\"")
SPAN = Span(0, 0)


def shape(rule_text: str) -> Shape:
    """What a rule requires of a command. Raises ValueError for a text that is no rule."""
    rule = _shape(_words(rule_text))
    return replace(rule, also=other_words(rule, _beginning))


def _shape(words: tuple[str, ...]) -> Shape:
    name = program_name(words[0])
    known = chart(name)
    rest = tuple(literal_word(word, SPAN) for word in words[1:])
    if known is None:
        return _uncharted(name, words, rest)
    stages = resolve(known, rest, is_rule=True)
    last = stages[-1]
    names = tuple(stage.arguments.operands[0] for stage in stages[:-1])
    operands = _literals(names + last.arguments.operands)
    aliases = known.program.aliases.items() if operands else ()
    return Shape(
        name,
        words,
        _flags(stages),
        operands,
        also_spelled=tuple(alias for alias, meant in aliases if meant == operands[0]),
        goals=_goals(known),
        several_from=len(names) if _takes_several(last.chart) else None,
    )


_beginning = lru_cache(2048)(_shape)
"""The shape of a beginning that many rules of a program share."""


def _goals(known: Chart) -> Goals | None:
    told = known.program
    if not told.goals:
        return None
    return Goals(told.goals_between, told.goals == "abbreviated", tuple(told.common_goals.split()))


def _takes_several(last: Chart) -> bool:
    """Whether the program takes several operands that mean the same. False where they may be another
    command."""
    program = last.program
    return program.runs is None and not {Trait.INTERPRETER, Trait.PASSES_ON} & set(program.traits)


def _flags(stages: tuple[CommandStage, ...]) -> tuple[str, ...]:
    """The options that a deny or ask rule requires: all that are not weightless, or else all of them."""
    given = [given for stage in stages for given in stage.arguments.given]
    heavy = [one.name for one in given if not one.option.weightless]
    heavy += [name for stage in stages for name in stage.implied]
    return tuple(dict.fromkeys(heavy or [one.name for one in given]))


def _uncharted(name: str, words: tuple[str, ...], rest: tuple[Word, ...]) -> Shape:
    """The shape of a rule for an unknown program. A cluster requires its letters: `-rf` is mostly `-r -f`."""
    command = uncharted(Command((literal_word(words[0], SPAN), *rest), SPAN, ""), name)
    flags = tuple(flag for flag in command.flags if flag.startswith("--") or len(flag) == 2)
    return Shape(name, words, flags, _literals(command.operands), several_from=1)


def _literals(words: tuple[Word, ...]) -> tuple[str, ...]:
    return tuple(word.literal or "" for word in words)


def _words(text: str) -> tuple[str, ...]:
    """The words of a rule, checked, without a final `:*` or `*`, which every rule implies."""
    if not text.strip():
        raise ValueError("the rule is empty; write a program, such as `npm test`")
    words = _split(text.strip())
    if words and words[-1] == ("*", True) and len(words) > 1:
        words.pop()
    last, plain = words[-1]
    if plain and last.endswith(":*"):
        words[-1] = (last[:-2], False)
    for word, plain in words:
        if plain and "*" in word:
            raise ValueError(
                f"`{word}` is a pattern; a rule matches whole words and all that follow them: {_hint(words)}"
            )
    name = words[0][0]
    if not name or name.startswith("-") or "=" in name:
        raise ValueError(
            f"`{text.strip()}` does not begin with a program; write one first, such as `npm test`"
        )
    return tuple(word for word, _ in words)


def _hint(words: list[tuple[str, bool]]) -> str:
    good: list[str] = []
    for word, plain in words:
        if plain and "*" in word:
            break
        good.append(word)
    return f"write `{' '.join(good)}`" if good else 'name a program, or set `mode = "run_everything"`'


def _split(text: str) -> list[tuple[str, bool]]:
    """Each word, and whether it is written without quotes."""
    if NEEDS_CARE.isdisjoint(text):
        return [(word, True) for word in text.split()]
    words: list[tuple[str, bool]] = []
    word: str | None = None
    plain, quote, escaped = True, "", False
    for c in text:
        if escaped:
            word, escaped, plain = (word or "") + c, False, False
        elif c == "\\" and quote != "'":
            escaped = True
        elif quote:
            word, quote = (word or "", "") if c == quote else ((word or "") + c, quote)
        elif c in "'\"":
            word, quote, plain = word or "", c, False
        elif c in OPERATORS:
            raise ValueError(f"`{_shown(c)}` is shell syntax; write a rule for each program, or quote it")
        elif c.isspace():
            if word is not None:
                words.append((word, plain))
            word, plain = None, True
        else:
            word = (word or "") + c
    if quote or escaped:
        raise ValueError(
            f"`{text}` ends inside a quotation; close it with {quote or 'a character after the backslash'}"
        )
    if word is not None:
        words.append((word, plain))
    return words


def _shown(c: str) -> str:
    return "\\n" if c == "\n" else c
