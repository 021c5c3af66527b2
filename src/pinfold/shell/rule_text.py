"""The text of a rule, in the same canonical form as a command.

This module decides what a rule's author may write: a program, and words that follow it, with simple
quotes. It starts no parser: a rule is not a shell line, and what only a shell could understand
is an error that says what to write instead. Comparing a shape with a command is policy's.
"""

from functools import lru_cache

from msgspec.structs import replace

from pinfold.model.locations import Span
from pinfold.model.script import Command, Goals, Shape, Trait, Word
from pinfold.shell.effects import uncharted
from pinfold.shell.options import Stage, implied, literal_word, resolve
from pinfold.shell.programs import Chart, chart, program_name
from pinfold.shell.rule_synonyms import other_words

OPERATORS = frozenset("|&;<>$`()\n")
NEEDS_CARE = OPERATORS | frozenset("\\'\"")
SPAN = Span(0, 0)


def shape(rule_text: str) -> Shape:
    """What a rule asks of a command. Raises ValueError for a text that is no rule."""
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
"""Of what many rules of a program begin with."""


def _goals(known: Chart) -> Goals | None:
    told = known.program
    if not told.goals:
        return None
    return Goals(told.goals_between, told.goals == "abbreviated", tuple(told.common_goals.split()))


def _takes_several(last: Chart) -> bool:
    """Not where the operands may be another command's words."""
    program = last.program
    return program.runs is None and not {Trait.INTERPRETER, Trait.PASSES_ON} & set(program.traits)


def _flags(stages: tuple[Stage, ...]) -> tuple[str, ...]:
    """The options a restrictive rule asks for: those that weigh something, or else all of them."""
    given = [given for stage in stages for given in stage.arguments.given]
    heavy = [one.name for one in given if not one.option.weightless]
    heavy += [name for stage in stages for name in implied(stage)]
    return tuple(dict.fromkeys(heavy or [one.name for one in given]))


def _uncharted(name: str, words: tuple[str, ...], rest: tuple[Word, ...]) -> Shape:
    """A cluster asks for its letters, since `-rf` and `-r -f` mean the same to most programs."""
    command = uncharted(Command((literal_word(words[0], SPAN), *rest), SPAN, ""), name)
    flags = tuple(flag for flag in command.flags if flag.startswith("--") or len(flag) == 2)
    return Shape(name, words, flags, _literals(command.operands), several_from=1)


def _literals(words: tuple[Word, ...]) -> tuple[str, ...]:
    return tuple(word.literal or "" for word in words)


def _words(text: str) -> tuple[str, ...]:
    """The words of a rule, checked; a final `:*` or `*` says what every rule means anyway."""
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
                f"`{word}` is a pattern; a rule matches whole words and whatever follows them: {_hint(words)}"
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
    """Each word with whether it was written without quotes."""
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
