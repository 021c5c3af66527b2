"""What variables such as EDITOR and GIT_SSH_COMMAND tell programs to run: their values, as shell text.

Which names these are, `data/environment.toml` says. That such a name may redirect a program at all is
`variables`' business.
"""

from msgspec import Struct

from pinfold.model.script import Assignment, Glob, Home, Text, Unknown, Variable, Word
from pinfold.shell.programs import is_shell_text
from pinfold.shell.results import ShellText
from pinfold.shell.variables import default, keeps

# Facts about bash: a function in the environment is `BASH_FUNC_name%%=() { ...; }`.
FUNCTION = "BASH_FUNC_"


class Told(Struct, frozen=True):
    texts: tuple[ShellText, ...]
    unknowns: tuple[Unknown, ...]


def told_by(assignments: tuple[Assignment, ...], via: tuple[str, ...]) -> Told:
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
            why = f"what `{assigned.name}` tells programs to run is only known when it runs"
            unknowns.append(Unknown(why, assigned.span, True))
    return Told(tuple(texts), tuple(unknowns))


def as_written(value: Word) -> str | None:
    """The text with the names of variables left in it, where nothing in the line says what they hold.

    Accepted: that each of them holds one word, as the path of a key does.
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
