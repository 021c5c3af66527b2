"""Trees with fields missing: each is judged, and what is missing takes no command along unseen."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import copy

import pytest

from pinfold.model.script import Script
from pinfold.shell import parse
from pinfold.shell.shfmt import SyntaxTrouble
from pinfold.shell.syntax import load_tree
from pinfold.shell.tree_text import Node

pytestmark = pytest.mark.slow

Path = tuple[str | int, ...]

LINES = (
    "a && b || c | d |& e", "if a; then b; elif c; then d; else e; fi", "if a; then b; fi",
    "while a; do b; done", "until c; do d; done", "for ((i=0;i<3;i++)); do a; done",
    "for ((;;)); do a; done", "select x in a b; do c; done", "for x in; do a; done", "for x; do a; done",
    "f() { a; }; function g { b; }", "time -p a", "time", "coproc n { a; }", "coproc a",
    "cat <<E >o 2>&1\n$x `y` $(z)\nE\n", "cat <<-'E'\n\tx\n\tE", "cat <<E\nE", "cat <<E\n\\\n$(x)\nE",
    "[[ ( -f a && ! b == c ) || -z $d ]]", "[[ a =~ (b|$(c))$ ]]", "let x=1+2 y++",
    "echo $((1+(2*-$(x)))) $[$(y)]", "((a = b ? $(c) : 2))", "declare -a x=([1]=$(a) b) y=1 -z", "declare",
    "a=([1]=)", "a=()", "export PATH=a:~/b",
    "echo ${a[1]} ${a[@]:1:2} ${#a} ${!a*} ${!b} ${c/x/$(y)} ${d:-$(e)} ${f@Q} $1 \"$@\" ${g^^h}",
    "echo ${x-} ${x/} ${x//a}",
    "echo @(a|b) *.c [ab] {a,b}{1..3}",
    "echo \"a $b `c` $(d) $((e))\" $'x\\ny' $\"z\" '' \"\" $'' $\"\" $() <()", "diff <(a) >(b)",
    "x=1 y+=2 z[$(a)]=4", "x= a", "case $x in a|b) c ;; *) d ;& e) ;; esac", "case x in esac",
    "! a & b; (c); { d; }", "a # comment", "# comment", "echo ${ a; } ${|b;}", ">f",
    "echo ${x=$(a)} ${y@P}", "a <<< $(b) <$(c) >d <>e >|f >>g &>h {i}>j 3<&4 5>&-",
    "eval 'a; b'; bash -c 'c'; trap 'd' EXIT",
)  # fmt: skip
PLACES = frozenset(
    ("Pos", "End", "ValuePos", "ValueEnd", "Position", "OpPos", "Left", "Right", "Dollar", "Rbrace",
     "Semicolon", "Comments")
)  # fmt: skip


class GivenOption:
    """A parser that gives this tree for this text."""

    def __init__(self, text: str, tree: Node) -> None:
        self.text = text
        self.tree = tree

    def load_tree(self, text: str) -> Node:
        return self.tree if text == self.text else load_tree(text)


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pinfold.shell.parse"], "REMEMBERED", 0)


def nodes(node: object, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    if isinstance(node, dict):
        yield path, node
        for field, value in node.items():
            yield from nodes(value, (*path, field))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from nodes(value, (*path, number))


def kind(path: Path, node: Node) -> str:
    """Its type, or else the field that holds it."""
    field = next((step for step in reversed(path) if isinstance(step, str)), "")
    return str(node.get("Type") or f".{field}")


def without(tree: Node, path: Path, field: str) -> Node:
    """A tree of its own only down to the field: the rest is the other's too."""
    whole = node = copy(tree)
    for step in path:
        node[step] = copy(node[step])  # type: ignore[index]
        node = node[step]  # type: ignore[index]
    del node[field]
    return whole


def trees() -> dict[str, Node]:
    return {line: load_tree(line) for line in LINES}


def always_there(known: dict[str, Node]) -> dict[str, set[str]]:
    """Of each kind of node the fields that none of them lacks."""
    many: Counter[str] = Counter()
    fields: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tree in known.values():
        for path, node in nodes(tree):
            many[kind(path, node)] += 1
            fields[kind(path, node)].update(node.keys())
    return {each: {field for field in fields[each] if fields[each][field] == many[each]} for each in many}


def starts(script: Script) -> list[object]:
    return [
        (command.words, command.assignments, command.redirections, command.directories)
        for command in script.commands
    ]


def test_every_tree_is_judged() -> None:
    """No field whose absence is an error, or that takes a command along."""
    known = trees()
    required = always_there(known)
    removed = 0
    for line, tree in known.items():
        whole = parse(line, parser=GivenOption(line, tree))
        for path, node in nodes(tree):
            for field in node:
                script = parse(line, parser=GivenOption(line, without(tree, path, field)))
                if field in PLACES or field not in required[kind(path, node)]:
                    continue
                removed += 1
                is_known = bool(script.problem) or any(unknown.runs for unknown in script.unknowns)
                lost = starts(script) != starts(whole) or set(whole.unknowns) - set(script.unknowns)
                assert is_known or not lost, f"{kind(path, node)} without {field}: {line}"
    assert removed > 500


CRASHED = [
    ("cat <<E\n\\\n$(x)\nE", ["x", "cat"]),
    ("cat <<E\n\\\n`x`\nE", ["x", "cat"]),
    ("cat > Dockerfile <<-E\n\tRUN a \\\n\t&& b\n\t\\\n\t$(x)\n\tE", ["x", "cat"]),
    ("+=a[b]; x", ["x"]),
]


@pytest.mark.parametrize(("line", "programs"), CRASHED)
def test_literals_without_a_value(line: str, programs: list[str]) -> None:
    script = parse(line)
    assert [command.program for command in script.commands] == programs
    assert bool(script.problem) == line.startswith("+=")


def test_every_start_of_a_line_is_judged() -> None:
    """A cut line has trees of its own, where shfmt makes any."""
    for line in LINES:
        for end in range(len(line)):
            try:
                load_tree(line[:end])
            except SyntaxTrouble:
                continue
            parse(line[:end])
