"""What a command does to the shell that runs it, and the shell's own commands that run text.

`parse` calls `examine` for every command of a line, the unwrapped ones too: `command eval x` is `eval x`.
`examine` handles prefix assignments and commands that change the directory. The judges in this module handle
builtins that run text: now (`eval`), later (`trap`), by another name (`alias`). A judge returns literal text
to be parsed like the line, and notes an `Unknown` for any other text. `name_builtins` judges the others.

A program on PATH with the name of a builtin is judged as the builtin: that only adds caution.

Facts about bash: traps, aliases, completions, keys (`bind -x`), `mapfile -C` and `fc` run text later.
"""

from collections.abc import Callable

from pinfold.model.script import Command, Word
from pinfold.model.text_positions import Span
from pinfold.shell.cd_tracking import MOVERS, anywhere, without_prefix
from pinfold.shell.findings import Findings, Nested
from pinfold.shell.name_builtins import TAKES_NAMES
from pinfold.shell.stdin import is_stream
from pinfold.shell.variables import EVALUATED, RUN_LATER, keeps

Judge = Callable[[Command, list[Word], Findings], list[Nested]]
"""Takes a command and its words after the name; returns the texts that it runs."""


def _nested(command: Command, name: str, text: str, span: Span, findings: Findings) -> Nested:
    places = command.directories if name == "eval" else anywhere(findings.facts, command.directories)
    return Nested(text, span, (*command.via, name), places, command.inputs, is_alias=name == "alias")


def _eval(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if words and words[0].literal == "--":
        words = words[1:]
    if not words:
        return []
    texts = [word.literal for word in words]
    if None in texts:
        findings.unknown(
            "the text that `eval` runs is only known when the line runs", command.span, runs=True
        )
        findings.changes_directory = findings.assigns_any = True
        return []
    span = Span(words[0].span.start, words[-1].span.end)
    return [_nested(command, "eval", " ".join(filter(None, texts)), span, findings)]


def _source(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    operands = words[1:] if words and words[0].literal == "--" else words
    findings.sources_file = True
    file = operands[0].known({"HOME": "~"}) if operands else ""
    is_input = bool(operands) and is_stream(operands[0], command.directories)
    if file is None or file.startswith("/dev/") or is_input:
        findings.unknown("which file is sourced is only known when the line runs", command.span, runs=True)
    else:
        findings.unknown("a sourced file may give names another meaning", command.span)
    return []


def _trap(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if words and words[0].literal == "--":
        words = words[1:]
    if not words or (words[0].literal or "x").startswith("-") or len(words) == 1:
        if any(word.literal is None for word in words):
            findings.unknown(
                "the text that `trap` runs is only known when the line runs", command.span, runs=True
            )
        return []
    text = words[0].literal
    if text is None:
        findings.unknown(
            "the text that `trap` runs is only known when the line runs", command.span, runs=True
        )
        return []
    return [_nested(command, "trap", text, words[0].span, findings)]


def _alias(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    found: list[Nested] = []
    for word in words:
        text = word.literal
        if text is None:
            findings.unknown("the text of an alias is only known when the line runs", word.span, runs=True)
            findings.defined.add(word.start.partition("=")[0])
        elif "=" in text:
            name, _, value = text.partition("=")
            findings.defined.add(name)
            if value.endswith("\\") or "<<" in value:
                findings.unknown("an alias that changes how the line is read", word.span, runs=True)
            found.append(_nested(command, "alias", value, word.span, findings))
    return found


def _runs_anything(why: str, *options: str) -> Judge:
    """The judge of a builtin that may run anything: always, or where it may have an option of `options`."""

    def judge(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
        if not options or any(_may_hold(word, letter) for word in words for letter in options):
            findings.unknown(why, command.span, runs=True)
        return []

    return judge


def _may_hold(word: Word, letter: str) -> bool:
    """Whether a word may be, or hold, the option `-letter`."""
    if word.literal is None:
        return word.may_be_option
    text = word.literal
    return len(text) > 1 and text[0] == "-" and text[1] != "-" and letter in text


def _enable(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if any(_may_hold(word, "f") for word in words):
        findings.unknown("`enable -f` loads code into the shell", command.span, runs=True)
    elif words:
        findings.unknown("`enable` changes which names are the shell's own", command.span)
    return []


RUNS_TEXT: dict[str, Judge] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "enable": _enable,
    "hash": _runs_anything("`hash -p` gives a name another program", "p"),
    "complete": _runs_anything("completions run text"),
    "compgen": _runs_anything("completions run text"),
    "compopt": _runs_anything("completions run text"),
    "bind": _runs_anything("`bind -x` runs text on a key", "x"),
    "fc": _runs_anything("`fc` runs lines of the history"),
    "mapfile": _runs_anything("`mapfile -C` runs text for each line", "C"),
    "readarray": _runs_anything("`mapfile -C` runs text for each line", "C"),
}


FILLED_IN = frozenset(("HOME", "CDPATH"))
"""Variables whose values Pinfold fills in in paths, unless the line changes them."""


def examine(command: Command, findings: Findings) -> list[Nested]:
    """Returns the shell texts in a command; adds to `findings` what else it does to the shell."""
    for assignment in command.assignments:
        if assignment.name in FILLED_IN and not (
            assignment.value and keeps(assignment.name, assignment.value)
        ):
            findings.assigned.add(assignment.name)  # by `env` too, which may unset it
        if assignment.name in RUN_LATER:
            why = f"the shell may run the value of `{assignment.name}`"
            findings.unknown(why, assignment.span, runs=True)
        if assignment.name in EVALUATED:
            why = f"the shell evaluates what is assigned to `{assignment.name}` as arithmetic"
            findings.evaluated(why, assignment.span)
        if assignment.name == "PATH":
            findings.unknown("changes `PATH`, so names may mean other programs", assignment.span)
    words = without_prefix(command.words)
    name = words[0].literal if words else None
    if name is None:
        if words and words[0].file_name is None:
            why = f"`{words[0].source}` may be any program"
            findings.unknown(why, words[0].span, runs=True)
            findings.changes_directory = findings.assigns_any = True
        return []
    if name in MOVERS:
        findings.changes_directory = True
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
