"""What a command does to the shell that runs it.

`examine` is asked for every command of a line, the unwrapped ones too: `command eval x` is `eval x`. It
knows prefix assignments and who changes the directory; the builtins themselves are judged by `text_builtins`
and `name_builtins`. A program of the same name found on PATH would be judged as the shell's own command:
that only adds caution.
"""

from pinfold.model.script import Command, Word
from pinfold.shell.cd_tracking import MOVERS, without_prefix
from pinfold.shell.name_builtins import TAKES_NAMES
from pinfold.shell.results import Findings, Nested
from pinfold.shell.text_builtins import RUNS_TEXT
from pinfold.shell.variables import EVALUATED, RUN_LATER, keeps

FILLED_IN = frozenset(("HOME", "CDPATH"))
"""Variables by which paths are read, as long as nothing in the line changes them."""


def examine(command: Command, findings: Findings) -> list[Nested]:
    """The shell texts in a command; adds to `findings` what else it does to the shell."""
    for assignment in command.assignments:
        if assignment.name in FILLED_IN and not (
            assignment.value and keeps(assignment.name, assignment.value)
        ):
            findings.assigned.add(assignment.name)  # by `env`, too, which may take it away
        if assignment.name in RUN_LATER:
            findings.unknown(f"the shell may run what `{assignment.name}` holds", assignment.span, runs=True)
        if assignment.name in EVALUATED:
            why = f"what `{assignment.name}` is given is evaluated as arithmetic"
            findings.evaluated(why, assignment.span)
        if assignment.name == "PATH":
            findings.unknown("names may mean other programs once `PATH` is changed", assignment.span)
    words = without_prefix(command.words)
    name = words[0].literal if words else None
    if name is None:
        if words and words[0].file_name is None:
            why = f"`{words[0].source}` is only known to be a program when it runs"
            findings.unknown(why, words[0].span, runs=True)
            findings.moves = findings.assigns_any = True
        return []
    if name in MOVERS:
        findings.moves = True
        findings.assigned |= {"PWD", "OLDPWD"}
    rest = list(words[1:])
    if name == "exec" and (not rest or rest[0].may_be_option):
        findings.replaces_input |= any(redirection.feeds for redirection in command.redirections)
    findings.sets_parameters |= _sets_parameters(name, rest)
    if name in TAKES_NAMES:
        TAKES_NAMES[name](command, rest, findings)
    return RUNS_TEXT[name](command, rest, findings) if name in RUNS_TEXT else []


def _sets_parameters(name: str, words: list[Word]) -> bool:
    """Whether one of the shell's own commands may change what `"$@"` is; `set -euo pipefail` does not."""
    if name != "set":
        return name in ("shift", "source", ".")
    after_option = False
    for word in words:
        text = word.literal
        if text is None or text.strip("-+") == "" or (text[0] not in "-+" and not after_option):
            return True
        after_option = text[0] in "-+" and text.endswith("o")
    return False
