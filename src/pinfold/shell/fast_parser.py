r"""The syntax tree of a plain line, built without asking shfmt: it equals shfmt's tree.

Most lines that agents type are plain words joined by a few operators, and asking shfmt costs more than all
the rest of a decision. This module knows a small part of the grammar and returns None for everything else:

    list     = chain {(";" | "&") chain} [";" | "&"]
    chain    = pipe {("&&" | "||") pipe}
    pipe     = command {("|" | "|&") command}
    command  = {assignment | redirection} {word | redirection} | loop
    loop     = "for" name "in" word {word} ";" "do" list "done"     with `;` or `&` before the `done`
    word     = {literal | '...' | "..." | $name | ${name} | $(list)}, of printable ASCII, blanks as bash has

INVARIANT: the tree equals shfmt's, key by key and place by place. A text that shfmt refuses has no tree here.
Judging rests on this, so anything that is not certain to be equal is None. tests/shell/test_fast_parser.py
compares the two.

The expressions below hold this up: they name the characters they take, never those they leave out. A
character that they do not name (a newline, a comment, `(`, a backquote, `<<`, a byte beyond ASCII) matches
nowhere.

Facts about shfmt 3.14:
- A word is reserved where a command may begin, if it is one bare literal. After an assignment it is a word
  like any other, and after a redirection an error; this module returns None in every case.
- A literal is cut in two before a `[` inside of it: `r[m]` is, `{[m]}` is not. `{name}` right before `<` or
  `>` names a descriptor. So this module takes `[` only where a word begins, and no `}` before those signs.
- `#` goes on with a word after a literal or a quote, and begins a comment after `$(...)`.
- `;&` is one sign, also in `;&>`.
- Digits name a descriptor only where they are all of a word before `<` or `>`: `a2>b` and `"a"2>b` are words.
- `A+=` without a value ends before its `=`.
- `;` and `&` belong to the statement before them; operators of one rank lean to the left.
- A place counts bytes, and lines and columns from 1. A plain line is ASCII and one line long.
- The pieces of a double quote follow its place and its own fields. Two commands of a binary share its end.
"""

import re

from pinfold.shell.tree_text import Node


def place(offset: int) -> Node:
    return {"Offset": offset, "Line": 1, "Col": offset + 1}


def valued(start: int, text: str) -> Node:
    begin, end = place(start), place(start + len(text))
    return {"Pos": begin, "End": end, "ValuePos": begin, "ValueEnd": end, "Value": text}


def literal(start: int, text: str) -> Node:
    return {"Type": "Lit", **valued(start, text)}


def enclosed(kind: str, left: int, right: int) -> Node:
    begin = place(left)
    return {"Type": kind, "Pos": begin, "End": place(right + 1), "Left": begin, "Right": place(right)}


def single_quoted(start: int, text: str) -> Node:
    node = enclosed("SglQuoted", start, start + len(text) - 1)
    if len(text) > 2:
        node["Value"] = text[1:-1]
    return node


def parameter(start: int, text: str) -> Node:
    begin, end = place(start), place(start + len(text))
    node: Node = {"Type": "ParamExp", "Pos": begin, "End": end, "Dollar": begin}
    if text[1] == "{":
        node["Rbrace"] = place(start + len(text) - 1)
        node["Param"] = valued(start + 2, text[2:-1])
    else:
        node["Short"] = True
        node["Param"] = valued(start + 1, text[1:])
    return node


def literal_of(word: Node) -> str:
    """The text of a word that is one bare literal; an empty string for any other."""
    parts = word["Parts"]
    return parts[0]["Value"] if len(parts) == 1 and parts[0]["Type"] == "Lit" else ""


def assignment(word: Node) -> Node | None:
    """The assignment of a word that begins with `NAME=` or `NAME+=`; None for any other word."""
    first, *rest = word["Parts"]
    left, equals, value = first["Value"].partition("=") if first["Type"] == "Lit" else ("", "", "")
    name = left.removesuffix("+")
    if not equals or not name.isidentifier():
        return None
    start = word["Pos"]["Offset"]
    if value:
        rest.insert(0, literal(start + len(left) + 1, value))
    node: Node = {"Pos": word["Pos"], "End": word["End"], "Name": valued(start, name)}
    if name != left:
        node["Append"] = True
    if rest:
        node["Value"] = {"Pos": rest[0]["Pos"], "End": word["End"], "Parts": rest}
    return node


def statement(assigns: list[Node], args: list[Node], redirs: list[Node]) -> Node | None:
    """A simple command; None if there is nothing in it."""
    words = [*assigns, *args]
    if not words and not redirs:
        return None
    start = min((nodes[0]["Pos"] for nodes in (words, redirs) if nodes), key=_offset)
    end = max((nodes[-1]["End"] for nodes in (words, redirs) if nodes), key=_offset)
    stmt: Node = {"Pos": start, "End": end, "Position": start}
    if words:
        stmt["Cmd"] = command = {"Type": "CallExpr", "Pos": words[0]["Pos"], "End": words[-1]["End"]}
        if assigns:
            command["Assigns"] = assigns
        if args:
            command["Args"] = args
    if redirs:
        stmt["Redirs"] = redirs
    return stmt


def _offset(at: Node) -> int:
    offset: int = at["Offset"]
    return offset


def joined(op: str, at: int, left: Node, right: Node) -> Node:
    command = {
        "Type": "BinaryCmd", "Pos": left["Pos"], "End": right["End"],
        "OpPos": place(at), "Op": op, "X": left, "Y": right,
    }  # fmt: skip
    return {"Pos": left["Pos"], "End": right["End"], "Cmd": command, "Position": left["Pos"]}


MAX_CHARACTERS = 1_000
MAX_COMMANDS = 64
"""Operators lean to the left, so the tree is as deep as the number of commands."""
MAX_DEPTH = 3
"""How many lists may be nested."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_BARE = r"-A-Za-z0-9_!%*+,./:=?@\]^{}~"
_BRACKET = r"(?<![^ \t])(?<!\\ )\["
_EXPANSION = rf"(?P<name>\$(?:{_NAME}|[0-9?@]))|(?P<braced>\$\{{{_NAME}\}})|(?P<list>\$\()"
_BETWEEN = re.compile(
    r"[ \t]*(?:(?P<number>[0-9]*)(?P<redirection>(?<!\})(?:>[>&|]?|<[>&]?))|(?P<both>&>>?)"
    r"|(?P<operator>&&?|\|[|&]?|;(?![;&|])|\))|(?P<end>\Z))?"
)
_PART = re.compile(
    rf"(?P<literal>(?:[{_BARE}]|{_BRACKET}|\\[ -~])(?:[{_BARE}#]|\\[ -~])*)"
    rf"|(?P<single>'[\t -&(-~]*')|(?P<double>\")|{_EXPANSION}"
)
_QUOTED_PART = rf"(?P<literal>(?:[\t !#%-\[\]-_a-~]|\\[ -~])+)|(?P<close>\")|{_EXPANSION}"
_RESERVED = frozenset(
    ("if", "then", "elif", "else", "fi", "for", "foreach", "select", "while", "until", "do", "done", "in",
     "case", "esac", "function", "time", "coproc", "repeat", "end", "always", "let", "declare", "typeset",
     "local", "export", "readonly", "nameref", "integer", "float", "noglob", "nocorrect", "[[", "]]", "@test")
)  # fmt: skip


class _NotPlain(Exception):  # noqa: N818 - nothing went wrong
    pass


def plain_tree(text: str) -> Node | None:
    """The tree of `text`, or None where only shfmt knows."""
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        stmts = _PlainLineReader(text).statements("")
    except _NotPlain:
        return None
    return {"Type": "File", "Pos": stmts[0]["Pos"], "End": stmts[-1]["End"], "Stmts": stmts}


class _PlainLineReader:
    """Reads from left to right; `at` is the position, `sign` what ended the last command, at `sign_at`.

    The sign is an operator, `done`, or an empty string for the end of the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.sign = ""
        self.sign_at = 0
        self.commands = 0
        self.depth = 0

    # Lists

    def statements(self, closing: str) -> list[Node]:
        """The statements up to the sign `closing`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _NotPlain
        stmts: list[Node] = []
        while (first := self.command()) is not None:
            stmt = self.chain(first)
            stmts.append(stmt)
            if self.sign not in (";", "&"):
                break
            stmt["Semicolon"] = place(self.sign_at)
            stmt["End"] = place(self.sign_at + 1)
            if self.sign == "&":
                stmt["Background"] = True
        if self.sign != closing or not stmts:
            raise _NotPlain
        self.depth -= 1
        return stmts

    def chain(self, first: Node) -> Node:
        left = self.pipe(first)
        while self.sign in ("&&", "||"):
            op, at = self.sign, self.sign_at
            left = joined(op, at, left, self.pipe(self.required_command()))
        return left

    def pipe(self, first: Node) -> Node:
        left = first
        while self.sign in ("|", "|&"):
            op, at = self.sign, self.sign_at
            left = joined(op, at, left, self.required_command())
        return left

    # Commands

    def required_command(self) -> Node:
        command = self.command()
        if command is None:
            raise _NotPlain
        return command

    def command(self) -> Node | None:
        """The command that begins here, up to its sign; None where the sign comes first."""
        self.commands += 1
        if self.commands > MAX_COMMANDS:
            raise _NotPlain
        assigns: list[Node] = []
        args: list[Node] = []
        redirs: list[Node] = []
        while (found := self.between()) is not None:
            if found.lastgroup is not None:
                redirs.append(self.redirection(found))
                continue
            word = self.word()
            if args:
                args.append(word)
                continue
            bare, is_first = literal_of(word), not assigns and not redirs
            if is_first and bare == "for":
                return self.loop(word)
            if is_first and bare == "done":
                self.sign, self.sign_at = "done", word["Pos"]["Offset"]
                return None
            if bare in _RESERVED or bare[:1] in ("{", "}", "!"):
                raise _NotPlain
            assign = assignment(word)
            if assign is None:
                args.append(word)
            elif "Append" in assign and "Value" not in assign:
                raise _NotPlain
            else:
                assigns.append(assign)
        return statement(assigns, args, redirs)

    def between(self) -> re.Match[str] | None:
        """Skips blanks up to a redirection, a word (no group), or a sign (None)."""
        found = _BETWEEN.match(self.text, self.at)
        if found is None:
            raise _NotPlain
        self.at = found.end()
        if found.lastgroup == "operator" or found.lastgroup == "end":
            self.sign = found[found.lastgroup]
            self.sign_at = self.at - len(self.sign)
            return None
        return found

    def redirection(self, found: re.Match[str]) -> Node:
        op_at = found.start(found.lastgroup or 0)
        node: Node = {"Pos": place(op_at), "OpPos": place(op_at), "Op": found[found.lastgroup or 0]}
        if found["number"]:
            node["N"] = valued(found.start("number"), found["number"])
            node["Pos"] = node["N"]["Pos"]
        self.skip_blanks()
        node["Word"] = word = self.word()
        node["End"] = word["End"]
        return node

    def skip_blanks(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    # Loops

    def loop(self, word: Node) -> Node:
        start = word["Pos"]
        iteration = self.loop_head()
        do_at = self.keyword("do")
        stmts = self.statements("done")
        done_at, end = place(self.sign_at), place(self.at)
        command = {
            "Type": "ForClause", "Pos": start, "End": end, "ForPos": start,
            "DoPos": do_at, "DonePos": done_at, "Loop": iteration, "Do": stmts,
        }  # fmt: skip
        if self.between() is not None:
            raise _NotPlain
        return {"Pos": start, "End": end, "Cmd": command, "Position": start}

    def loop_head(self) -> Node:
        """`name in word word;`"""
        self.skip_blanks()
        at = self.at
        name = literal_of(self.word())
        if not name.isidentifier():
            raise _NotPlain
        in_at = self.keyword("in")
        items: list[Node] = []
        while (found := self.between()) is not None:
            if found.lastgroup is not None:
                raise _NotPlain
            items.append(self.word())
        if self.sign != ";" or not items:
            raise _NotPlain
        variable = valued(at, name)
        return {
            "Type": "WordIter", "Pos": variable["Pos"], "End": items[-1]["End"],
            "Name": variable, "InPos": in_at, "Items": items,
        }  # fmt: skip

    def keyword(self, expected: str) -> Node:
        self.skip_blanks()
        word = self.word()
        if literal_of(word) != expected:
            raise _NotPlain
        start: Node = word["Pos"]
        return start

    # Words

    def word(self) -> Node:
        start = self.at
        parts: list[Node] = []
        while (found := _PART.match(self.text, self.at)) is not None:
            parts.append(self.part(found))
        if not parts:
            raise _NotPlain
        return {"Pos": place(start), "End": place(self.at), "Parts": parts}

    def part(self, found: re.Match[str]) -> Node:
        start, self.at = found.span()
        match found.lastgroup:
            case "literal":
                return literal(start, found[0])
            case "single":
                return single_quoted(start, found[0])
            case "double":
                return self.double_quoted(start)
            case "name" | "braced":
                return parameter(start, found[0])
            case _:
                return self.substitution(start)

    def double_quoted(self, start: int) -> Node:
        parts: list[Node] = []
        pattern = re.compile(_QUOTED_PART)  # compiled here: most lines have no double quotes
        while (found := pattern.match(self.text, self.at)) is not None:
            if found.lastgroup == "close":
                self.at = found.end()
                node = enclosed("DblQuoted", start, found.start())
                if parts:
                    node["Parts"] = parts
                return node
            parts.append(self.part(found))
        raise _NotPlain

    def substitution(self, start: int) -> Node:
        stmts = self.statements(")")
        return {**enclosed("CmdSubst", start, self.sign_at), "Stmts": stmts}
