"""Where a text means one thing to our parser and another to the shell that will run it.

bash runs the whole line; dash, busybox or ksh may run the texts that `sh -c` and the like get. The parser
reads all of them as bash would, which is right only for a text without syntax of bash's own.

Facts about dash: `$'a\\'b'` ends at the second quote, `{a,b}` is one word, `&>` is a background job and a
truncated file, `[[`, `((`, `<(` and `<<<` do not exist.
"""

import re
from typing import Any

from pinfold.shell.programs import chart, program_name
from pinfold.shell.tree_text import Node

_READ_DIFFERENTLY = {
    # shfmt reads CR LF as one newline, also after a backslash. bash does not.
    "\r\n": "a carriage return before a newline",
    # bash removes the continuation first, and sees `$(`, `<(` or `<<`. shfmt does not.
    "$\\\n": "a line continuation inside of an expansion",
    "<\\\n": "a line continuation inside of a redirection",
    ">\\\n": "a line continuation inside of a redirection",
}
"""Texts that bash and shfmt read differently, and what to call them."""
_ODD_COMMENT = re.compile(r"[^ \t\n;&|(<>]#|\\[ \t\n;&|(<>]+#|#.*\\\n")
"""Finds comments that bash and shfmt may read differently; matches much else too."""
_SHELLS = frozenset(("bash", "rbash"))
_OTHER_SHELLS = frozenset(("sh", "dash", "ash", "ksh", "mksh", "ksh93", "yash", "busybox"))
_BASH_ONLY = (
    "$'", '$"', "&>", ">&", "<(", ">(", "[[", "<<<", ";&", ";;&", "|&", "$[", "@(", "+(", "!(", "?(", "*(",
    "coproc", "select", "function", "+=", "]=",
)  # fmt: skip


_PLAIN = r"[\w./,:@+=-]+"
_PLAIN_COMMAND = rf"{_PLAIN}(?: +{_PLAIN})*"
_PLAIN_TEXT = rf"(?:cd +{_PLAIN} *(?:&&|;) *)?({_PLAIN_COMMAND}(?: *\| *{_PLAIN_COMMAND})*)"


def reads_alike(text: str) -> bool:
    """Whether zsh, ksh and fish start the same programs with the same words as bash does.

    Facts about these shells: each has words that may precede a command (`noglob`, `and`, `repeat 3`), and
    commands that make a later name mean another program (`hash ls=/bin/git`, fish's `alias ls git`). So only
    one pipe of known programs counts, with nothing but a `cd` before it. To zsh, `=x` at the start of a word
    is a path.
    """
    found = re.fullmatch(_PLAIN_TEXT, text.strip(" "), re.ASCII)
    if found is None or re.search(r"(^| )=", text):
        return False
    return all(chart(program_name(each.split()[0])) is not None for each in found[1].split("|"))


def find_divergence(text: str, tree: Node) -> tuple[str, int] | None:
    """What bash and shfmt read differently in `text`, and where. tests/shell/test_bash_agrees.py found
    these."""
    for odd, problem in _READ_DIFFERENTLY.items():
        if odd in text:
            return problem, text.index(odd)
    if not _ODD_COMMENT.search(text):
        return None
    try:
        return _divergent_comment(text, tree)
    except KeyError as missing:
        return f"an unknown kind of node: {missing}", 0


def _divergent_comment(text: str, tree: Node) -> tuple[str, int] | None:
    """A comment of the tree in which bash reads a command, and where it is.

    Facts about shfmt 3.14:
    - it lets a comment that ends with a backslash go on: `ls # a\\` joins the line below to the command
      above;
    - in `$(echo ${a}#b; cmd`, it takes the rest of the line for a comment. To bash, `#` goes on with a word.
    """
    data = text.encode()
    comments, backquotes = _comments(tree)
    for node in comments:
        at = int(node["Hash"]["Offset"])
        if node.get("Text", "").rstrip("\n").endswith("\\"):
            problem = "a comment that ends with a backslash"
        elif not (_begins_a_word(data[:at]) or at - 1 in backquotes):
            problem = "a comment that begins inside of a word"
        else:
            continue
        return problem, len(data[:at].decode(errors="ignore"))
    return None


def _begins_a_word(before: bytes) -> bool:
    """Whether a `#` after this text begins a word. After `)` and a backquote it depends on what they
    close."""
    start = re.sub(rb"(?<!\\)((?:\\\\)*)(?:\\\n)+\Z", rb"\1", before)
    return re.search(rb"(?:\A|(?<!\\)(?:\\\\)*[ \t\n;&|(<>])\Z", start) is not None


def _comments(tree: Node) -> tuple[list[Node], set[int]]:
    """The comments of a tree, and where backquotes open."""
    comments: list[Node] = []
    backquotes: set[int] = set()
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
            continue
        if "Hash" in node:
            comments.append(node)
        if node.get("Backquotes"):
            backquotes.add(int(node["Pos"]["Offset"]))
        waiting.extend(value for value in node.values() if isinstance(value, dict | list))
    return comments, backquotes


def runs_in_another_shell(via: tuple[str, ...]) -> bool:
    """Whether the innermost shell around a command is not bash."""
    for name in reversed(via):
        if name in _SHELLS:
            return False
        if name in _OTHER_SHELLS:
            return True
    return False


def has_bash_only_syntax(text: str) -> bool:
    """Whether the text has syntax of bash's own. Quoted text may count too: that only adds caution."""
    for sign in _BASH_ONLY:
        if sign in (text if sign != ">&" else _without_descriptors(text)):
            return True
    return "((" in text.replace("$((", "") or _may_expand_braces(text)


def _without_descriptors(text: str) -> str:
    for descriptor in ("1", "2", "-"):
        text = text.replace(f">&{descriptor}", "")
    return text


def _may_expand_braces(text: str) -> bool:
    opens = (at for at, character in enumerate(text) if character == "{" and text[at - 1 : at] != "$")
    return any(
        "," in text[at:] or ".." in text[at:]
        for at in opens
        if text[at + 1 : at + 2] not in ("", " ", "\n", "}")
    )
