"""A word of the tree to `model.script.Word`s: quoting undone, braces expanded, the rest named.

This module decides what is literal, what is a pattern, what a person can still read (`$NAME`, `~`) and what
only the shell can compute. It does not look at the commands inside of substitutions (`walk` does).

The order of the steps: tree parts -> atoms (one per character or opaque part) -> braces -> tilde -> patterns.
That is bash's own order, so `{~,x}/a` and `"["a]` have the same value as in bash.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from pinfold.model.script import (
    Computed,
    Defaulted,
    Glob,
    Home,
    Part,
    Substitution,
    Text,
    Variable,
    Word,
)
from pinfold.model.text_positions import Span
from pinfold.shell.braces import Atom, Quoted, TooMany, expand
from pinfold.shell.quotes import undo_ansi_c, undo_double
from pinfold.shell.tree_text import Node, SourceText, value_of

_ACTIVE = frozenset("\\{}*?[]~=:")
_SET_CHARACTERS = frozenset("]-!^[\\")
_BRACES = frozenset("{},")
_PARAMETERS = frozenset("@*#?-$!0123456789")
_PLAIN = r"[\w ./,:+=-]+"
SHELL_KEPT = frozenset(
    ("_", "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_COMMAND", "BASH_LINENO", "BASH_REMATCH",
     "BASH_SOURCE", "BASH_SUBSHELL", "COMP_CWORD", "COMP_LINE", "COMP_WORDS", "COPROC", "DIRSTACK",
     "EPOCHREALTIME", "EPOCHSECONDS", "FUNCNAME", "HISTCMD", "LINENO", "MAPFILE", "OPTARG", "OPTIND",
     "PIPESTATUS", "RANDOM", "READLINE_LINE", "REPLY", "SECONDS", "SHLVL", "SRANDOM")
)  # fmt: skip
"""Variables that the shell itself changes while it runs."""


class UnknownNode(Exception):  # noqa: N818
    """A kind of node that this package does not know: the line counts as not parsed."""


class Scope(Struct, frozen=True):
    """What the value of a word depends on besides the word."""

    source: SourceText
    is_assigned: Callable[[str], bool]
    """Whether the line may give this variable a value."""
    is_filled: Callable[[str], bool]
    """Whether a variable that the line sets is certainly not empty at this place."""
    defined: frozenset[str]
    """The functions and aliases of the line."""


class _Break:
    """The place where an unquoted `$IFS` ends a word: unassigned, it holds nothing but blanks."""


_BREAK = _Break()
_STACK = Computed("directory stack", True)
_EMPTY = Quoted("")
"""Empty quotes: nothing to read, but the word exists."""


def read_words(node: Node, scope: Scope) -> list[Word]:
    """The words that an argument expands to: usually one; none or several with braces and `$IFS`."""
    source, span = scope.source.written(node), scope.source.span(node)
    atoms = _atoms(node["Parts"], scope)
    if atoms is None:
        return [Word(source, span, (Text(value_of(node["Parts"][0])),))]
    try:
        words = _with_braces(atoms)
    except TooMany:
        return [Word(source, span, (Computed("brace expansion", False),))]
    # Empty text from braces is no word; empty quotes are one.
    pieces = [piece for word in words for piece in _split(word) if piece]
    return [_finish(piece, scope, source, span) for piece in pieces]


def read_word(node: Node | None, scope: Scope, *, assigns: bool = False) -> Word:
    """The word at a place where braces are literal: a value, a pattern, a here-string."""
    if node is None:
        return Word("", Span(0, 0), ())
    source, span = scope.source.written(node), scope.source.span(node)
    atoms = _atoms(node["Parts"], scope)
    if atoms is None:
        return Word(source, span, (Text(value_of(node["Parts"][0])),))
    return _finish([a for a in atoms if a is not _BREAK], scope, source, span, assigns=assigns)


def _atoms(parts: Sequence[Node], scope: Scope) -> list[Atom] | None:
    """The word as atoms; None for one literal without a special character, as most words are."""
    if len(parts) == 1 and parts[0]["Type"] == "Lit" and not _ACTIVE & set(value_of(parts[0])):
        return None
    atoms: list[Atom] = []
    for part in parts:
        atoms.extend(_part(part, scope))
    return atoms


def _part(part: Node, scope: Scope) -> list[Atom]:
    match part["Type"]:
        case "Lit":
            return _literal(value_of(part))
        case "SglQuoted":
            return _single(part)
        case "DblQuoted":
            return _double(part, scope)
        case "ExtGlob":
            return [_pattern_group(part)]
        case "ParamExp" if _plain_name(part) == "IFS" and not scope.is_assigned("IFS"):
            return [_BREAK]
        case _:
            return [read_expansion(part, scope, quoted=False)]


def _literal(text: str) -> list[Atom]:
    atoms: list[Atom] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            if text[at] != "\n":  # shfmt keeps a continuation only where the text ends with it
                atoms.append(Quoted(text[at]))
        elif text[at] == "\\":
            atoms.append(Quoted("\\"))
        else:
            atoms.append(text[at])
        at += 1
    return atoms


def _single(part: Node) -> list[Atom]:
    text = value_of(part)
    if part.get("Dollar"):
        value = undo_ansi_c(text)
        if value is None:
            return [Computed("quoted bytes", True)]
        text = value
    return [_EMPTY, *map(Quoted, text)]


def _double(part: Node, scope: Scope) -> list[Atom]:
    if part.get("Dollar") and (scope.is_assigned("TEXTDOMAIN") or scope.is_assigned("TEXTDOMAINDIR")):
        return [Computed("translated text", True)]
    atoms: list[Atom] = [_EMPTY]
    for inner in part.get("Parts", ()):
        if inner["Type"] == "Lit":
            atoms.extend(map(Quoted, undo_double(value_of(inner))))
        else:
            atoms.append(read_expansion(inner, scope, quoted=True))
    return atoms


def _pattern_group(part: Node) -> Part:
    text = part["Op"] + part["Pattern"]["Value"] + ")"
    if set(text) & set("\\'\"$`"):
        return Computed("extended pattern", False)
    return Glob(text)


def _plain_name(part: Node) -> str:
    """NAME for `$NAME` and `${NAME}`; an empty string for anything more."""
    extra = part.keys() - {"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param"}
    return str(part["Param"]["Value"]) if not extra and part.get("Param") else ""


def read_expansion(part: Node, scope: Scope, *, quoted: bool) -> Part:
    match part["Type"]:
        case "ParamExp":
            return _parameter(part, scope, quoted=quoted)
        case "CmdSubst" if quoted and _is_working_directory(part, scope):
            return Text(".")
        case "CmdSubst":
            return Computed("command substitution", quoted)
        case "ProcSubst":
            return Computed(Substitution.PROCESS, quoted)
        case "ArithmExp":
            return Computed("arithmetic", quoted)
        case kind:
            raise UnknownNode(f"an unknown kind of word: {kind}")


def _parameter(part: Node, scope: Scope, *, quoted: bool) -> Part:
    name = _plain_name(part)
    if not name:
        index = part.get("Index") or {}
        is_list = part.get("Names") or any(p.get("Value") == "@" for p in index.get("Parts", ()))
        if _requires_a_value(part):
            return _required(part["Param"]["Value"], scope, quoted=quoted)
        default = _default(part)
        if default and not scope.is_assigned(part["Param"]["Value"]):
            what, name = "parameter expansion", part["Param"]["Value"]
            return Defaulted(what, quoted, name=name, default=default)
        takes_list = (part.get("Param") or {}).get("Value") in ("@", "*")
        return Computed("parameter expansion", quoted and not is_list and not takes_list)
    if name[0] in _PARAMETERS:
        return Computed("shell parameter", quoted and name != "@")
    if name in SHELL_KEPT or scope.is_assigned(name):
        return Computed("variable set in this line", quoted, may_be_empty=not scope.is_filled(name))
    return Variable(name, quoted)


def _requires_a_value(part: Node) -> bool:
    """Whether it is `${NAME:?}`: the shell stops if the variable is empty."""
    extra = part.keys() - {"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param", "Exp"}
    return not extra and (part.get("Exp") or {}).get("Op") == ":?"


def _default(part: Node) -> str:
    """The text of `${NAME:-text}`, where nothing in it is special to any shell."""
    extra = part.keys() - {"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Param", "Exp"}
    operation = part.get("Exp") or {}
    inside = (operation.get("Word") or {}).get("Parts", ())
    is_plain = not extra and operation.get("Op") in ("-", ":-") and part["Param"]["Value"].isidentifier()
    if not is_plain or len(inside) != 1 or inside[0]["Type"] != "Lit":
        return ""
    text = value_of(inside[0])
    return text if re.fullmatch(_PLAIN, text) else ""


def _required(name: str, scope: Scope, *, quoted: bool) -> Part:
    if name in ("HOME", "PWD") and not scope.is_assigned(name):
        return Variable(name, quoted)
    return Computed("parameter expansion", quoted and name != "@", may_be_empty=False)


def _is_working_directory(part: Node, scope: Scope) -> bool:
    """Whether it is `$(pwd)`, and the line redefines neither `pwd` nor the directory."""
    stmts = part.get("Stmts") or [{}]
    arguments = (stmts[0].get("Cmd") or {}).get("Args") or [{}]
    parts = arguments[0].get("Parts") or [{}]
    plain = len(stmts) == len(arguments) == len(parts) == 1 and parts[0].get("Value") == "pwd"
    plain = (
        plain
        and not (stmts[0].keys() & {"Redirs", "Background", "Negated"})
        and "Assigns" not in stmts[0]["Cmd"]
    )
    return plain and not scope.is_assigned("PWD") and "pwd" not in scope.defined


def _with_braces(atoms: list[Atom]) -> list[list[Atom]]:
    if not any(type(atom) is str and atom == "{" for atom in atoms):
        return [atoms]
    if any(type(atom) is Quoted and atom in _BRACES for atom in atoms):
        raise TooMany  # bash reads `{}\\{,}` by no rule worth copying
    words = expand(atoms)
    if len(words) > 1 and any(isinstance(atom, Glob) and "(" in atom.text for atom in atoms):
        raise TooMany  # bash splits at commas inside of `@(a,b)` too
    return words


def _split(atoms: list[Atom]) -> list[list[Atom]]:
    if _BREAK not in atoms:
        return [atoms]
    pieces: list[list[Atom]] = [[]]
    for atom in atoms:
        if atom is _BREAK:
            pieces.append([])
        else:
            pieces[-1].append(atom)
    return [piece for piece in pieces if piece]


def _finish(atoms: list[Atom], scope: Scope, source: str, span: Span, *, assigns: bool = False) -> Word:
    starts = _tilde_starts(atoms, assigns)
    last_closing = max((place for place, atom in enumerate(atoms) if atom == "]"), default=-1)
    parts: list[Part] = []
    text: list[str] = []
    at = 0
    while at < len(atoms):
        special, end = _special(atoms, at, starts, last_closing)
        if special is None:
            text.append(str(atoms[at]))
            at += 1
            continue
        if text:
            parts.append(Text("".join(text)))
            text = []
        if special == Home() and scope.is_assigned("HOME"):
            special = Computed("home set in this line", True)
        if special == _STACK and source == "~+" and not scope.is_assigned("PWD"):
            special = Text(".")
        parts.append(special)
        at = end
    if any(text):
        parts.append(Text("".join(text)))
    return Word(source, span, tuple(part for part in parts if part != Text("")))


def _special(atoms: list[Atom], at: int, tildes: set[int], last_closing: int) -> tuple[Part | None, int]:
    """The part that begins at `at`, if it is more than a character, and its end."""
    atom = atoms[at]
    if isinstance(atom, Text | Glob | Variable | Home | Computed):
        return atom, at + 1
    if type(atom) is not str:
        return None, at
    if atom in "*?":
        return Glob(atom), at + 1
    if atom == "[" and at < last_closing:
        return _bracket(atoms, at)
    if atom == "~" and at in tildes:
        return _tilde(atoms, at)
    return None, at


def _bracket(atoms: list[Atom], at: int) -> tuple[Part | None, int]:
    first = at + 1
    if first < len(atoms) and type(atoms[first]) is str and atoms[first] in ("!", "^"):
        first += 1
    for end in range(first + 1, len(atoms)):
        if type(atoms[end]) is str and atoms[end] == "]":
            inside = atoms[at + 1 : end]
            if any(not isinstance(a, str) or (type(a) is Quoted and a in _SET_CHARACTERS) for a in inside):
                return Computed("pattern", False), end + 1
            return Glob("[" + "".join(str(a) for a in inside) + "]"), end + 1
    return None, at


def _tilde_starts(atoms: list[Atom], assigns: bool) -> set[int]:
    """Where a `~` expands. Facts about bash: at the start of a word; in an assignment, also after `:`. It
    treats an argument that looks like an assignment (`dir=~/x`) as one."""
    if "~" not in atoms:
        return set()
    value = 0 if assigns else _value_start(atoms)
    starts = {0} if value is None or assigns else {value}
    if value is not None:
        starts |= {i + 1 for i in range(value, len(atoms)) if type(atoms[i]) is str and atoms[i] == ":"}
    return {i for i in starts if i < len(atoms) and type(atoms[i]) is str and atoms[i] == "~"}


def _value_start(atoms: list[Atom]) -> int | None:
    for at, atom in enumerate(atoms):
        if type(atom) is not str:
            return None
        if atom == "=":
            return at + 1 if at else None
        if not (atom.isalnum() or atom in "_+[]"):
            return None
    return None


def _tilde(atoms: list[Atom], at: int) -> tuple[Part | None, int]:
    """The part that a `~` begins, and its end. Facts about bash: the user's name ends at a slash, and, unlike
    the manual says, at a colon too."""
    end = at + 1
    while end < len(atoms) and atoms[end] not in ("/", ":"):
        if type(atoms[end]) is not str:
            return None, at
        end += 1
    user = "".join(str(a) for a in atoms[at + 1 : end])
    if user[:1] in ("+", "-") or user.isdigit():
        return _STACK, end
    if user and not all(c.isalnum() or c in "_-." for c in user):
        return None, at
    return Home(user), end
