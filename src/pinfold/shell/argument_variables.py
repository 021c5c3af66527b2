"""Variables that give programs further words: `MAVEN_ARGS=deploy mvn test` is `mvn deploy test`.

This module decides which words these are; `data/environment.toml` says which variables. A variable counts for
every command of the line that it is about, wherever the line sets it. That such a variable may redirect the
program outside of the sandbox is `variables`' business.

Facts about git: `GIT_CONFIG_KEY_0` and `GIT_CONFIG_VALUE_0` are `-c key=value`; GIT_CONFIG_PARAMETERS holds
many of those, each quoted for a shell.
"""

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from pinfold.model.script import Assignment, Command, Computed, Text, Word
from pinfold.shell.options import literal_word
from pinfold.shell.programs import ArgumentVariable, argument_variables

KEY = "GIT_CONFIG_KEY_"


def giving(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Those by which some program gets words."""
    return tuple(each for each in assignments if _is_key(each.name) or _meaning(each.name) is not None)


def with_given_words(command: Command, given: tuple[Assignment, ...]) -> Iterator[Command]:
    """The command as the variables of the line make it."""
    for assigned in given:
        meaning = _meaning(assigned.name)
        if meaning is None or assigned.name in command.via or command.program not in meaning[0].of.split():
            continue
        variable, groups = meaning
        if variable.subcommand and groups and not _is_about(command, groups[0]):
            continue
        words = tuple(_words(assigned, variable, groups, given))
        if words:
            yield _with(command, words, assigned, is_last=variable.subcommand)


def _is_key(name: str) -> bool:
    return name.startswith(KEY)


@lru_cache(maxsize=256)
def _meaning(name: str) -> tuple[ArgumentVariable, tuple[str, ...]] | None:
    for pattern, variable in argument_variables().items():
        if found := re.fullmatch(pattern, name):
            groups = (group for group in found.groups() if group is not None)
            return variable, tuple(group.lower().replace("_", "-") for group in groups)
    return None


def _is_about(command: Command, subcommand: str) -> bool:
    names = "-".join(word.literal or "" for word in command.operands)
    return f"{names}-".startswith(f"{subcommand}-")


def _with(command: Command, words: tuple[Word, ...], assigned: Assignment, *, is_last: bool) -> Command:
    first, *rest = command.words
    return replace(
        Command(
            words=(first, *rest, *words) if is_last else (first, *words, *rest),
            span=command.span,
            text=command.text,
        ),
        assignments=command.assignments,
        redirections=command.redirections,
        directories=command.directories,
        via=(*command.via, assigned.name),
    )


def _words(
    assigned: Assignment, variable: ArgumentVariable, groups: tuple[str, ...], given: tuple[Assignment, ...]
) -> Iterator[Word]:
    text, span = _literal(assigned), assigned.span
    key = _key(assigned.name, given)
    if variable.words:
        for word in variable.words.split(" "):
            start, has_value, _ = word.partition("{0}")
            if has_value and text is None:
                yield _unknown(start.format("", *groups), assigned, quoted=True)
            else:
                yield literal_word(word.format(text, *groups), span)
    elif text is None or key is None:
        yield _unknown("", assigned, quoted=False)
    elif key or variable.settings:
        for setting in [f"{key}={text}"] if key else _split(text):
            yield literal_word("-c", span)
            yield literal_word(setting, span)
    else:
        yield from (literal_word(word, span) for word in _split(text))


def _unknown(start: str, assigned: Assignment, *, quoted: bool) -> Word:
    """A word that begins so, and goes on with what the variable holds."""
    holds = Computed(f"what `{assigned.name}` holds", quoted)
    parts = (Text(start), holds) if start else (holds,)
    return Word(f"{start}${assigned.name}", assigned.span, parts)


def _key(name: str, given: tuple[Assignment, ...]) -> str | None:
    """What git's own pair of variables calls the value; nothing for other variables, None if unknown."""
    if not name.startswith("GIT_CONFIG_VALUE_"):
        return ""
    wanted = KEY + name.rpartition("_")[2]
    return next((_literal(each) for each in given if each.name == wanted), None)


def _literal(assigned: Assignment) -> str | None:
    """Its text; `NAME="$NAME more"` says what is added."""
    if assigned.value is None:
        return None
    if assigned.value.literal is not None:
        return assigned.value.literal
    return _added(assigned)


def _added(assigned: Assignment) -> str | None:
    from pinfold.shell.command_variables import as_written  # most values are literal

    text = as_written(assigned.value) if assigned.value is not None else None
    if text is None:
        return None
    rest = re.sub(r'"?\$\{' + re.escape(assigned.name) + r'\}"?', " ", text)
    return rest if "${" not in rest else None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
