"""The shell's own commands that take names of variables or change the shell's options.

They run nothing themselves. Each judge adds to the findings what its builtin may assign, export or switch on.

Facts about bash: every builtin that takes a variable's name also takes `a[expression]`, and evaluates the
expression.
"""

import re
from collections.abc import Callable
from itertools import zip_longest

from pinfold.model.script import Command, Computed, Word, drop_start
from pinfold.shell.findings import Findings
from pinfold.shell.tree_text import holds_substitution
from pinfold.shell.variables import OWN_LISTS, RUN_LATER, default, keeps, note_assigned

Judge = Callable[[Command, list[Word], Findings], None]

_COUNTS = r"%[-+ #0'*.0-9]*[hlLjzt]*n"


def _takes_names(*value_options: str, makes_lists: bool = False) -> Judge:
    """The judge of a builtin whose operands are names of variables; `value_options` take a value instead.

    The option `-a` makes the variable an array; with `makes_lists` it always is one.
    """

    def judge(_: Command, words: list[Word], findings: Findings) -> None:
        skip = False
        findings.makes_lists |= makes_lists or any("a" in word.start for word in words if word.may_be_option)
        for word in words:
            text = word.literal
            if skip:
                skip = False
            elif text is not None and len(text) > 1 and text[0] in "-+":
                skip = text[-1] in value_options
            else:
                _assign(word, findings)

    return judge


def _assign(word: Word, findings: Findings) -> None:
    name, _, _ = word.start.partition("=")
    name = name.removesuffix("+")
    # In `NAME=$(x)` the name is known, though the value is not.
    if (word.literal is None and "=" not in word.start) or not name.isidentifier():
        findings.assigns_any = findings.makes_lists = True
        if name or word.literal is None:
            findings.evaluated("a variable's name may hold a subscript, which is evaluated", word.span)
        return
    note_assigned(name, word.span, findings)


def _declare_name(word: Word, findings: Findings) -> None:
    """Notes a name that `declare` gets; the command itself has its assignment (`Command.assignments`)."""
    name, equals, _ = word.start.partition("=")
    value = drop_start(word, len(name) + 1) if equals else word
    if equals and (keeps(name, value) or default(name, value)):
        return
    name = name.removesuffix("+")
    if name.isidentifier() and name not in RUN_LATER and (word.literal is not None or "=" in word.start):
        findings.assigned.add(name)
    else:
        _assign(word, findings)


def _declare(command: Command, words: list[Word], findings: Findings) -> None:
    options = [word for word in words if word.start.startswith(("-", "+"))]
    for word in options:
        if word.literal is None or set(word.literal) & set("in"):
            findings.evaluated("the shell evaluates the values of such a variable again", word.span)
    makes_lists = any(
        word.may_be_option and (word.literal is None or set(word.literal) & set("aA")) for word in words
    )
    findings.makes_lists |= makes_lists
    for word in words:
        if word not in options:
            _declare_name(word, findings)
            _list_of_values(word, findings, is_list=makes_lists)
            if any("n" in option.start for option in options) and "=" in word.start:
                _assign(drop_start(word, word.start.index("=") + 1), findings)  # a name for another variable
            exports = command.words[0].literal == "export" or any("x" in o.start for o in options)
            if exports and word.start:
                findings.exported.add(word.start.partition("=")[0].removesuffix("+"))


def _list_of_values(word: Word, findings: Findings, *, is_list: bool) -> None:
    """Notes a quoted list that `declare` expands again.

    Facts about bash: where the variable is an array, `declare a='($(cmd))'` reads the text as a list and
    expands it, however it is quoted.
    """
    name, equals, text = word.start.partition("=")
    facts = findings.facts
    is_list = is_list or facts.makes_lists or facts.assigns_any or name.removesuffix("+") in OWN_LISTS
    begins_list = text.lstrip().startswith("(")
    why = "`declare` expands a list of values again"
    if not equals:
        return
    if begins_list and word.literal is not None:
        if holds_substitution(text):
            findings.evaluated(why, word.span, runs=True)
    elif begins_list or (is_list and not text and word.literal is None):
        findings.evaluated(why, word.span)


def _printf(_: Command, words: list[Word], findings: Findings) -> None:
    _option_names_variable(words, "v", findings)
    for word in words:
        if re.search(_COUNTS, word.literal or "") or (
            word.literal is None and word is words[0] and _is_set(word)
        ):
            # `%n` assigns the number of characters so far to the variable that its operand names.
            findings.unknown("`printf` may give a variable a value", word.span)
            findings.assigns_any = True


def _wait(_: Command, words: list[Word], findings: Findings) -> None:
    _option_names_variable(words, "p", findings)


def _option_names_variable(words: list[Word], letter: str, findings: Findings) -> None:
    for index, word in enumerate(words[:2] if letter == "v" else words):
        if word.literal is None:
            # Only a value from this very line can hold both the option and an attack.
            if _is_set(word) and word.may_be_option:
                findings.evaluated(f"`{word.source}` may be an option that names a variable", word.span)
            continue
        if word.literal == f"-{letter}" and index + 1 < len(words):
            _assign(words[index + 1], findings)
        elif word.literal.startswith(f"-{letter}"):
            findings.evaluated("a variable's name may hold a subscript, which is evaluated", word.span)
            findings.assigns_any = True


def _getopts(_: Command, words: list[Word], findings: Findings) -> None:
    for word in words[1:2]:
        _assign(word, findings)


_AFTER_AN_OPERAND = frozenset(
    (
        "=",
        "==",
        "!=",
        "<",
        ">",
        "-eq",
        "-ne",
        "-lt",
        "-le",
        "-gt",
        "-ge",
        "-nt",
        "-ot",
        "-ef",
        "-a",
        "-o",
        ")",
    )
)


def _test(_: Command, words: list[Word], findings: Findings) -> None:
    """Notes tests that may evaluate a subscript: `-v a[x]` evaluates x.

    A word may be `-v` only if no operator follows it: `[ "$x" = y ]` is a comparison for any value of x.
    """
    operands = words[:-1] if words and words[-1].literal == "]" else words
    for word, after in zip_longest(operands, operands[1:]):
        computed = _is_set(word)
        may_be_operator = word.may_be_option and after is not None and after.literal not in _AFTER_AN_OPERAND
        if word.literal in ("-v", "-R") or (computed and (word.splits or may_be_operator)):
            findings.evaluated("a test may evaluate a subscript", word.span)
    if len(operands) == 2 and operands[0].literal is None:
        findings.evaluated("a test may evaluate a subscript", operands[0].span)


def _is_set(word: Word) -> bool:
    """Whether it holds a value that the line itself computes."""
    return any(isinstance(part, Computed) for part in word.parts)


def _set(_: Command, words: list[Word], findings: Findings) -> None:
    for index, word in enumerate(words):
        text = word.literal
        if text == "--":
            break
        if text is None:
            findings.unknown("which options `set` changes is only known when the line runs", word.span)
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


_SHOPT = frozenset(("cdable_vars", "autocd", "lastpipe"))


def _shopt(_: Command, words: list[Word], findings: Findings) -> None:
    for word in words:
        if word.literal is None or word.literal in _SHOPT:
            findings.changes_directory = True
            findings.unknown("sets a shell option that changes what `cd` and pipes do", word.span)
        if word.literal in ("histexpand", "history"):
            findings.unknown("history expansion rewrites later lines", word.span, runs=True)


def _let(command: Command, _: list[Word], findings: Findings) -> None:
    """Judges a `let` that shfmt does not parse as one: `command let x=1`."""
    findings.evaluated("`let` evaluates text as arithmetic", command.span)
    findings.assigns_any = True


TAKES_NAMES: dict[str, Judge] = {
    "mapfile": _takes_names("d", "n", "O", "s", "u", "C", "c", makes_lists=True),
    "readarray": _takes_names("d", "n", "O", "s", "u", "C", "c", makes_lists=True),
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
