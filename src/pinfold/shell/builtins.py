"""The shell's own commands that run text, define names, assign variables or evaluate hidden subscripts.

`examine` is asked for every command of a line, the unwrapped ones too: `command eval x` is `eval x`. It
decides what of that can be read (a literal `eval`) and says `Unknown` about the rest. A program of the
same name found on PATH would be judged as the shell's own command: that only adds caution.

Facts about bash: every builtin that takes a variable's name also takes `a[expression]`, and evaluates the
expression. Text is run later by traps, aliases, prompts, completions, `mapfile -C` and `fc`.
"""

from collections.abc import Callable

from pinfold.model.script import Command, Computed, Word
from pinfold.shell.directories import MOVERS, anywhere, without_prefix
from pinfold.shell.findings import Findings, Nested

RUN_LATER = frozenset(
    ("PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4", "BASH_ENV", "ENV", "BASH_ALIASES", "BASH_CMDS")
)
"""Variables whose value the shell runs, expands or takes for the meaning of a name."""


def examine(command: Command, findings: Findings) -> list[Nested]:
    """The shell texts in a command; adds to `findings` what else it does to the shell."""
    for assignment in command.assignments:
        if assignment.name in RUN_LATER:
            findings.unknown(f"the shell may run what `{assignment.name}` holds", assignment.span, runs=True)
        if assignment.name == "PATH":
            findings.unknown("names may mean other programs once `PATH` is changed", assignment.span)
    words = without_prefix(command.words)
    name = words[0].literal if words else None
    if name is None:
        if words:
            why = f"`{words[0].source}` is only known to be a program when it runs"
            findings.unknown(why, words[0].span, runs=True)
            findings.moves = findings.assigns_any = True
        return []
    if name in MOVERS:
        findings.moves = True
        findings.assigned |= {"PWD", "OLDPWD"}
    judge = _JUDGES.get(name)
    return judge(command, list(words[1:]), findings) if judge else []


def _nested(command: Command, name: str, text: str, word: Word, findings: Findings) -> Nested:
    places = command.directories if name == "eval" else anywhere(findings.facts, command.directories)
    return Nested(text, word.span, (*command.via, name), places, is_alias=name == "alias")


def _eval(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if words and words[0].literal == "--":
        words = words[1:]
    if not words:
        return []
    texts = [word.literal for word in words]
    if None in texts:
        findings.unknown("what `eval` runs is only known when it runs", command.span, runs=True)
        findings.moves = findings.assigns_any = True
        return []
    return [_nested(command, "eval", " ".join(filter(None, texts)), words[0], findings)]


def _source(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    operands = words[1:] if words and words[0].literal == "--" else words
    file = operands[0].literal if operands else ""
    findings.assigns_any = True
    if file is None or file.startswith(("/dev/", "/proc/")):
        findings.unknown("what is sourced is only known when it runs", command.span, runs=True)
    else:
        findings.unknown("a sourced file may give names another meaning", command.span)
    return []


def _trap(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if words and words[0].literal == "--":
        words = words[1:]
    if not words or (words[0].literal or "x").startswith("-") or len(words) == 1:
        if any(word.literal is None for word in words):
            findings.unknown("what `trap` will run is only known when it runs", command.span, runs=True)
        return []
    text = words[0].literal
    if text is None:
        findings.unknown("what `trap` will run is only known when it runs", command.span, runs=True)
        return []
    return [_nested(command, "trap", text, words[0], findings)]


def _alias(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    found: list[Nested] = []
    for word in words:
        text = word.literal
        if text is None:
            findings.unknown("what an alias stands for is only known when it runs", word.span, runs=True)
            findings.defined.add(word.start.partition("=")[0])
        elif "=" in text:
            name, _, value = text.partition("=")
            findings.defined.add(name)
            if value.endswith("\\") or "<<" in value:
                findings.unknown("an alias that changes how the line is read", word.span, runs=True)
            found.append(_nested(command, "alias", value, word, findings))
    return found


def _runs_anything(why: str, *options: str) -> Callable[[Command, list[Word], Findings], list[Nested]]:
    """A builtin that may run anything: always, or where an option of `options` may be given."""

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


def _takes_names(*value_options: str) -> Callable[[Command, list[Word], Findings], list[Nested]]:
    """A builtin whose operands are names of variables; `value_options` take a value, which is none."""

    def judge(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
        skip = False
        for word in words:
            text = word.literal
            if skip:
                skip = False
            elif text is not None and len(text) > 1 and text[0] in "-+":
                skip = text[-1] in value_options
            else:
                _assign(word, findings)
        return []

    return judge


def _assign(word: Word, findings: Findings) -> None:
    name, _, _ = word.start.partition("=")
    name = name.removesuffix("+")
    # `NAME=$(x)` assigns to a name that is known though the value is not.
    if (word.literal is None and "=" not in word.start) or not name.isidentifier():
        findings.assigns_any = True
        if name or word.literal is None:
            findings.unknown("a variable's name may hold a subscript, which is evaluated", word.span)
        return
    findings.assigned.add(name)
    if name in RUN_LATER:
        findings.unknown(f"the shell may run what `{name}` holds", word.span, runs=True)


def _declare(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    options = [word for word in words if word.start.startswith(("-", "+"))]
    for word in options:
        if word.literal is None or set(word.literal) & set("in"):
            findings.unknown("values of such a variable are evaluated again", word.span)
    for word in words:
        if word not in options:
            _assign(word, findings)
            exports = command.words[0].literal == "export" or any("x" in o.start for o in options)
            if exports and word.start:
                findings.exported.add(word.start.partition("=")[0].removesuffix("+"))
    return []


def _printf(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
    return _option_names_variable(words, "v", findings)


def _wait(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
    return _option_names_variable(words, "p", findings)


def _option_names_variable(words: list[Word], letter: str, findings: Findings) -> list[Nested]:
    for index, word in enumerate(words[:2] if letter == "v" else words):
        if word.literal is None:
            # Only a value of this very line can hold both the option and a payload.
            if any(isinstance(part, Computed) for part in word.parts) and word.may_be_option:
                findings.unknown(f"`{word.source}` may be an option that names a variable", word.span)
            continue
        if word.literal == f"-{letter}" and index + 1 < len(words):
            _assign(words[index + 1], findings)
        elif word.literal.startswith(f"-{letter}"):
            findings.unknown("a variable's name may hold a subscript, which is evaluated", word.span)
            findings.assigns_any = True
    return []


def _getopts(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
    for word in words[1:2]:
        _assign(word, findings)
    return []


def _mapfile(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if any(_may_hold(word, "C") for word in words):
        findings.unknown("`mapfile -C` runs text for each line", command.span, runs=True)
    return _takes_names("d", "n", "O", "s", "u", "C", "c")(command, words, findings)


def _test(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
    operands = words[:-1] if words and words[-1].literal == "]" else words
    for word in operands:
        splits = word.splits and any(isinstance(part, Computed) for part in word.parts)
        if word.literal in ("-v", "-R") or splits:
            findings.unknown("a test may evaluate a subscript", word.span)
    if len(operands) == 2 and operands[0].literal is None:
        findings.unknown("a test may evaluate a subscript", operands[0].span)
    return []


def _set(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
    for index, word in enumerate(words):
        text = word.literal
        if text == "--":
            break
        if text is None:
            findings.unknown("which options `set` changes is only known when it runs", word.span)
            continue
        named = words[index - 1].literal if index else ""
        is_option = text.startswith("-") or named == "-o"
        if is_option and ("a" in text[1:] or text == "allexport"):
            findings.exports_all = True
        if is_option and (("k" in text[1:] and text[0] == "-") or text == "keyword"):
            findings.unknown("`set -k` makes assignments of arguments", word.span)
            findings.assigns_any = True
        if is_option and ((text[0] == "-" and "H" in text) or text in ("histexpand", "history")):
            findings.unknown("history expansion rewrites later lines", word.span, runs=True)
    return []


_SHOPT = frozenset(("cdable_vars", "autocd", "lastpipe"))


def _shopt(_: Command, words: list[Word], findings: Findings) -> list[Nested]:
    for word in words:
        if word.literal is None or word.literal in _SHOPT:
            findings.moves = True
            findings.unknown("a shell option that changes what `cd` and pipes do", word.span)
        if word.literal in ("histexpand", "history"):
            findings.unknown("history expansion rewrites later lines", word.span, runs=True)
    return []


def _enable(command: Command, words: list[Word], findings: Findings) -> list[Nested]:
    if any(_may_hold(word, "f") for word in words):
        findings.unknown("`enable -f` loads code into the shell", command.span, runs=True)
    elif words:
        findings.unknown("`enable` changes which names are the shell's own", command.span)
    return []


def _let(command: Command, _: list[Word], findings: Findings) -> list[Nested]:
    """Only where shfmt did not see it: `command let x=1`."""
    findings.unknown("`let` evaluates text as arithmetic", command.span)
    findings.assigns_any = True
    return []


_JUDGES: dict[str, Callable[[Command, list[Word], Findings], list[Nested]]] = {
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
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "read": _takes_names("d", "i", "n", "N", "p", "t", "u"),
    "unset": _takes_names(),
    "declare": _declare,
    "typeset": _declare,
    "local": _declare,
    "export": _declare,
    "readonly": _declare,
    "nameref": _declare,
    "printf": _printf,
    "wait": _wait,
    "getopts": _getopts,
    "test": _test,
    "[": _test,
    "set": _set,
    "shopt": _shopt,
    "let": _let,
}
