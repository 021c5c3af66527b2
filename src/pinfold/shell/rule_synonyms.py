"""What a deny or ask rule says in other words: `docker run` is `docker container run`, and npx is `npm exec`.

This module decides which other shapes a rule has. `data/` holds the facts, each from the program's own help
or source. A rule's own shape has every other spelling of a subcommand or an option already (`options`).
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec.structs import replace

from pinfold.model.script import Shape
from pinfold.shell.programs import Chart, Program, chart

ShapeOf = Callable[[tuple[str, ...]], Shape]


def other_words(rule: Shape, shape_of: ShapeOf) -> tuple[Shape, ...]:
    """The rule in all other words, itself left out."""
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
    found += [replace(_named(rule, name), is_doubtful=True) for name in program.may_be]
    return tuple(each for each in dict.fromkeys(found) if each != rule)


def _named(rule: Shape, name: str) -> Shape:
    return rule if rule.program == name else replace(rule, program=name, words=(name, *rule.words[1:]))


def _by_other_beginnings(rule: Shape, known: Chart, shape_of: ShapeOf) -> Iterator[Shape]:
    program = known.program
    for ways, begins in _lines(program.same):
        if begins is not None and rule.operands[:1] not in begins:
            continue
        if way := next((way for way in ways if _may_begin(rule, way)), None):
            yield from _instead(rule, way, [other for other in ways if other != way], shape_of)
    for does, others in program.does.items():
        for way in _alternatives(others):
            yield from _instead(rule, way, [tuple(does.split())], shape_of)
    if program.unlisted_is and rule.operands:
        first, *rest = rule.operands
        if first == program.unlisted_is and rest and known.child(rest[0]) is None:
            yield from _instead(rule, (first,), [()], shape_of)
        elif known.child(first) is None:
            yield from _instead(rule, (), [(program.unlisted_is,)], shape_of)


def _by_other_programs(rule: Shape, program: Program, shape_of: ShapeOf) -> Iterator[Shape]:
    for name, beginning in program.shortcuts.items():
        yield from _begun(rule, shape_of((rule.program, *beginning.split())), shape_of((name,)))
    if program.shortcut_of:
        yield from _begun(rule, shape_of((rule.program,)), shape_of(tuple(program.shortcut_of.split())))


@lru_cache(maxsize=256)
def _lines(same: str) -> tuple[tuple[list[tuple[str, ...]], frozenset[tuple[str, ...]] | None], ...]:
    """The alternatives of each line, and how the operands of rules begin that one of them fits, if known.

    A program may have thousands of rules.
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
    """A quick look, before a chart is asked."""
    words = tuple(word for word in way if not word.startswith("-"))
    has_options = len(words) < len(way)
    return rule.operands[: len(words)] == words and (bool(rule.flags) or not has_options)


def _instead(
    rule: Shape, way: tuple[str, ...], others: list[tuple[str, ...]], shape_of: ShapeOf
) -> Iterator[Shape]:
    """The rule with another beginning, if it has this one."""
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
