"""Which assignments may redirect a program.

This module judges the names of variables, however a line sets or unsets one: before a command, alone, by
`export`, `declare` and the like, by `env`, and by anything else that names a variable (`for`, `read`,
`printf -v`, `${x:=y}`). It knows no values: a harmless name is harmless with any value.
`data/environment.toml` lists the harmless names.
"""

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from pinfold.model.load_structs import load_as
from pinfold.model.script import Assignment, Computed, Defaulted, Hazard, Variable, Word, drop_start
from pinfold.model.text_positions import Span
from pinfold.shell.findings import Findings
from pinfold.shell.programs import DATA


class ArgumentVariable(Struct, frozen=True, forbid_unknown_fields=True):
    """A variable that gives programs further words."""

    of: str
    """The programs."""
    words: str = ""
    """The words, with `{0}` for its value, and `{1}` and so on for the groups of its name. Empty: its value
    is a list of words."""
    settings: bool = False
    """Its value is a list of `key=value`, each for `-c`."""
    subcommand: bool = False
    """Its name says for which subcommand the words are; they come last."""


class Environment(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of environment variables."""

    harmless: frozenset[str]
    harmless_prefixes: tuple[str, ...]
    shell_text: frozenset[str]
    arguments: dict[str, ArgumentVariable]
    """Variables that give programs words, by a regular expression for the name."""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return load_as(Environment, os.path.join(DATA, "environment.toml"))


def harmless_variable(name: str) -> bool:
    """Whether a variable of this name cannot change what a program runs, loads or connects to."""
    known = _environment()
    return name in known.harmless or name.startswith(known.harmless_prefixes)


def is_shell_text(name: str) -> bool:
    """Whether programs run the value of a variable of this name in a shell."""
    return name in _environment().shell_text


def argument_variables() -> dict[str, ArgumentVariable]:
    """The variables that give programs words, by a regular expression for the name."""
    return _environment().arguments


DECLARES = frozenset({"export", "declare", "typeset", "readonly", "local"})
# Shell-local names: what a line calls its own variables. Proxies and npm's settings are lower-case too.
LOCAL = r"[a-z_][a-z0-9_]*"
NOT_LOCAL = r"(?i:.*_proxy|npm_config_.*|no_proxy)|_"


def assignment_hazards(assignments: tuple[Assignment, ...]) -> tuple[Hazard, ...]:
    """One hazard for each variable that may redirect a program."""
    return tuple(
        Hazard(f"sets `{a.name}`, which can redirect the program", a.span)
        for a in assignments
        if not (harmless_variable(a.name) or (not a.exported and is_local(a.name)))
    )


RUN_LATER = frozenset(
    ("PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4", "BASH_ENV", "ENV", "BASH_ALIASES", "BASH_CMDS")
)
"""Variables whose value the shell runs, expands or uses as the meaning of a name."""


EVALUATED = frozenset(
    ("RANDOM", "SRANDOM", "SECONDS", "OPTIND", "HISTCMD", "LINENO", "BASHPID", "EPOCHSECONDS")
)
"""Variables that are integers to bash: it evaluates what is assigned to them."""


OWN_LISTS = frozenset(
    ("BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_CMDS", "BASH_LINENO", "BASH_REMATCH", "BASH_SOURCE",
     "BASH_VERSINFO", "COMP_WORDS", "COMPREPLY", "COPROC", "DIRSTACK", "FUNCNAME", "GROUPS", "MAPFILE",
     "PIPESTATUS")
)  # fmt: skip
"""Variables that are arrays to bash from its start."""


IN_MANY_ENVIRONMENTS = frozenset(
    ("PATH", "HOME", "SHELL", "USER", "LANG", "TERM", "PWD", "TMPDIR", "EDITOR", "VISUAL", "PAGER",
     "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "NODE_PATH", "GIT_EDITOR", "GIT_PAGER",
     "GIT_SSH_COMMAND", "BROWSER")
)  # fmt: skip
"""Variables that reach programs without `export`: they are usually in the environment already."""


def note_assigned(name: str, span: Span, findings: Findings, *, looped: bool = False) -> None:
    """Notes a variable that gets a value in another way than by `NAME=value`, so that no command has it.

    Facts about bash: it evaluates what is assigned to `RANDOM`, `SECONDS` and the like as arithmetic. Such
    names are not among the harmless ones.
    """
    (findings.assigned_by_loop if looped else findings.assigned).add(name)
    facts = findings.facts
    exported = facts.exports_all or name in facts.exported or name in IN_MANY_ENVIRONMENTS
    if name in RUN_LATER:
        findings.unknown(f"the shell may run the value of `{name}`", span, runs=True)
    elif exported and is_shell_text(name):
        findings.unknown(f"programs may run the value of `{name}`", span, runs=True)
    elif name in EVALUATED:
        findings.evaluated(f"the shell evaluates what is assigned to `{name}` as arithmetic", span)
    elif not (harmless_variable(name) or is_local(name)):
        findings.unknown(f"sets `{name}`, which can redirect a program", span)


def is_local(name: str) -> bool:
    """Whether a name looks like a line's own variable, which no program reads."""
    return bool(re.fullmatch(LOCAL, name)) and not re.fullmatch(NOT_LOCAL, name)


def declaration_hazards(program: str, operands: tuple[Word, ...]) -> list[Hazard]:
    """One hazard for each variable that `export NAME=value` and the like set, or `unset NAME` unsets."""
    if program not in DECLARES and program != "unset":
        return []
    verb = "unsets" if program == "unset" else "sets"
    return [
        Hazard(f"{verb} `{name}`, which can redirect a program", span)
        for name, span in _names(operands)
        if not (harmless_variable(name) or (is_local(name) and program != "export"))
    ]


def keeps(name: str, value: Word) -> bool:
    """Whether an assignment keeps the value: `NAME="$NAME"`, where the line does not set it otherwise."""
    return value.parts in ((Variable(name, True),), (Variable(name, False),))


def default(name: str, value: Word) -> str:
    """The text of `NAME="${NAME:-text}"`, which may keep the value; empty for any other assignment.

    Only for variables whose value programs run: that text is judged, and then the assignment is known.
    """
    part = value.parts[0] if len(value.parts) == 1 else None
    is_its_own = isinstance(part, Defaulted) and part.name == name and is_shell_text(name)
    return part.default if is_its_own and isinstance(part, Defaulted) else ""


def appended(value: Word) -> Word:
    """The value of a variable after `NAME+=value`."""
    return Word(value.source, value.span, (Computed("its earlier value", quoted=True), *value.parts))


def declared(
    program: str, words: tuple[Word, ...], carried: tuple[Assignment, ...]
) -> tuple[Assignment, ...]:
    """The assignments of `export` and the like that are no assignments in the shell's grammar.

    `export 'NAME=value'`, `command export NAME=value`; in `export $NAME=value` the name is unknown.
    """
    if program not in DECLARES:
        return ()
    options = [word.start for word in words if word.start.startswith(("-", "+"))]
    exported = program == "export" or any("x" in option for option in options)
    known = [(each.name, each.value.parts) for each in carried if each.value is not None]
    found: list[Assignment] = []
    for word in words:
        name, equals, _ = word.start.partition("=")
        if word.start in options or (not equals and word.literal is not None):
            continue
        value = drop_start(word, len(name) + 1) if equals else word
        value = appended(value) if name.endswith("+") else value
        name = name.removesuffix("+") if equals else ""
        if (name, value.parts) not in known:
            found.append(Assignment(name, word.span, value, exported or name in IN_MANY_ENVIRONMENTS))
    return tuple(found)


def _names(operands: tuple[Word, ...]) -> Iterator[tuple[str, Span]]:
    for word in operands:
        name, equals, _ = word.start.partition("=")
        if equals or word.literal is not None:
            yield name.removesuffix("+").partition("[")[0], word.span
        else:
            yield word.source, word.span
