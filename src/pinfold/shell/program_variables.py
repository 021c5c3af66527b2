"""Variables by which a line tells programs what to run, or gives them further words.

- The value of variables such as EDITOR and GIT_SSH_COMMAND is shell text (`texts_in_variables`).
- `MAVEN_ARGS=deploy mvn test` is `mvn deploy test` (`with_given_words`). Such a variable counts for every
  command of the line that it is about, wherever the line sets it.

`data/environment.toml` lists the variables of both kinds. `variables` decides whether a variable may redirect
a program outside of the sandbox.

Facts about git: `GIT_CONFIG_KEY_0` and `GIT_CONFIG_VALUE_0` are `-c key=value`; GIT_CONFIG_PARAMETERS holds
many of those, each quoted for a shell.
"""

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.script import (
    Assignment,
    Command,
    Computed,
    Glob,
    Home,
    Text,
    Unknown,
    Variable,
    Word,
    literal_word,
)
from pinfold.shell.findings import ShellText
from pinfold.shell.variables import ArgumentVariable, argument_variables, default, is_shell_text, keeps

# Facts about bash: a function in the environment is `BASH_FUNC_name%%=() { ...; }`.
FUNCTION = "BASH_FUNC_"


class VariableTexts(Struct, frozen=True):
    texts: tuple[ShellText, ...]
    unknowns: tuple[Unknown, ...]


def texts_in_variables(assignments: tuple[Assignment, ...], via: tuple[str, ...]) -> VariableTexts:
    texts: list[ShellText] = []
    unknowns: list[Unknown] = []
    for assigned in assignments:
        is_text = is_shell_text(assigned.name) or assigned.name.startswith(FUNCTION)
        if assigned.value is None or not assigned.value.parts or not is_text:
            continue
        if keeps(assigned.name, assigned.value):
            continue
        text = default(assigned.name, assigned.value) or as_written(assigned.value)
        if text is not None and assigned.name.startswith(FUNCTION):
            text = f"f {text}"
        if text is not None:
            texts.append(ShellText(text, assigned.span, (*via, assigned.name)))
        elif assigned.exported:
            why = f"the value of `{assigned.name}`, which programs run, is only known when the line runs"
            unknowns.append(Unknown(why, assigned.span, True))
    return VariableTexts(tuple(texts), tuple(unknowns))


def as_written(value: Word) -> str | None:
    """The text with the names of variables left in it, where the line does not set them.

    Accepted: each of them is taken to hold one word, as the path of a key does.
    """
    pieces: list[str] = []
    for part in value.parts:
        match part:
            case Text(text) | Glob(text):
                pieces.append(text)
            case Variable(name, _):
                is_quoted = "".join(pieces).count('"') % 2
                pieces.append(f"${{{name}}}" if is_quoted else f'"${{{name}}}"')
            case Home(user):
                pieces.append(f"~{user}")
            case _:
                return None
    return "".join(pieces)


KEY = "GIT_CONFIG_KEY_"


def argument_assignments(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """The assignments that give some program words."""
    return tuple(each for each in assignments if _is_key(each.name) or _meaning(each.name) is not None)


def with_given_words(command: Command, given: tuple[Assignment, ...]) -> Iterator[Command]:
    """The command with the words that each variable of the line adds."""
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
    """A word that begins with `start` and continues with the unknown value of the variable."""
    holds = Computed(f"the value of `{assigned.name}`", quoted)
    parts = (Text(start), holds) if start else (holds,)
    return Word(f"{start}${assigned.name}", assigned.span, parts)


def _key(name: str, given: tuple[Assignment, ...]) -> str | None:
    """The key that git's own pair of variables gives the value; empty for other variables, None if
    unknown."""
    if not name.startswith("GIT_CONFIG_VALUE_"):
        return ""
    wanted = KEY + name.rpartition("_")[2]
    return next((_literal(each) for each in given if each.name == wanted), None)


def _literal(assigned: Assignment) -> str | None:
    """The text of its value; for `NAME="$NAME more"`, the added text."""
    if assigned.value is None:
        return None
    if assigned.value.literal is not None:
        return assigned.value.literal
    return _added(assigned)


def _added(assigned: Assignment) -> str | None:
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
