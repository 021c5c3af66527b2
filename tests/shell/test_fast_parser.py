"""Trees made without shfmt are shfmt's own, or there are none."""

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.decide import LINES
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.shell import shfmt
from pinfold.shell.fast_parser import MAX_CHARACTERS, MAX_COMMANDS, MAX_DEPTH, plain_tree

CORPUS = Path(__file__).parent.parent / "corpus"
BENIGN = (CORPUS / "benign.txt").read_text().splitlines()
BYPASSES = [json.loads(row)["input"] for row in (CORPUS / "bypasses.jsonl").read_text().splitlines()]


def tree_of_shfmt(text: str) -> Any:
    """Its answer; None where it refuses."""
    ended: list[shfmt.Process] = []
    try:
        return json.loads(shfmt.ask(shfmt.start(), text.encode(), ended))
    except shfmt.SyntaxTrouble:
        return None
    finally:
        for process in ended:
            shfmt.end(process)


def assert_same_or_none(text: str) -> None:
    tree = plain_tree(text)
    if tree is not None:
        assert tree == tree_of_shfmt(text), text


def rows(table: str) -> list[str]:
    """Its lines, but for those that name a group."""
    return [row for row in table.splitlines() if row and not row.startswith("-- ")]


PLAIN = rows(r"""
-- words
ls
 ls   -l  -x
find . -name \*.py -exec grep x {} \;
echo 'a b' "c d" '' "" e'f'"g"h
echo \"a\\ 'b\' \# "a\"b\$c\\"
echo a#b a=b =c a+=b ~ ~/x {a,b} *.c ? ! !x }
'if' x
\if x
[ -f x ] && echo 'is there'
ls [a-z]* ]
-- parameters
echo $A ${B}c "$C-${D}" $1 $12 $? "$@"
$EDITOR x
-- assignments
A=1
A= b
A=1 B='x y'$C make
A="$(pwd)"/x B=~/y:~/z c D=3
A=1=2 a
A+=1
A+='' B+=x$C a+=b d
-- redirections
> x
2> x
a>b
a 2 >b
a2>b
"a"2>b
a 2>&1>b
> x a < y b >> z
a &> x
a &>> x <> y >| z
a >&2 2>&- <&3
> x A=1 b
A=1 > x b
a > "$F"
-- operators
a;b;
a & b &
a && b || c | d && e
a|b|c
a |& b
a | b & c && d;
-- lists inside of words
echo $(a; b | c)d "x $(y "$(z)") w"
echo $(< x)
-- loops
for f in a $(b) "$c"; do echo $f; done | sort && ls
for f in a; do for g in b; do c & done; done
""")


@pytest.mark.parametrize("text", [*PLAIN, *LINES, "ls\t-l\t"])
def test_a_plain_line_has_the_tree_that_shfmt_gives(text: str) -> None:
    tree = plain_tree(text)
    assert tree is not None
    assert tree == tree_of_shfmt(text)


NOT_PLAIN = rows(r"""
-- reserved where a command begins, also after assignments and redirections
if a; then b; fi
while a; do b; done
{ a; }
! a
time a
coproc a
function a
case a in b) ;; esac
select a in b; do c; done
[[ a ]]
let a
declare a=1
local a
export A=1
readonly a
typeset a
@test a
A=1 export B=2
> x export A=1
a && if b
a | ! b
done
a; done
do a
-- other syntax
(a)
((1))
$((1))
$[1]
`a`
"`a`"
a # b
a;#
$(a)#b
'a'#b
<(a)
a <<b
a <<< b
a() b
!(a)
a*(b)
$'a'
$"a"
${a:-b}
${#a}
${!a}
$$
$
a$
"$"
a[1]=2
a[1]
A+=
A+= b
A=(b)
A=[x]
\ [a]
{a}>b
-- errors
'a
"a
a\
a |
a &&
&& a
;
a;;
a;&
a;&> b
a & ;
a >
> > a
a)
$(a
$()
a || || b
-- loops of any but the plainest kind
for f; do a; done
for f in; do a; done
for f in a; do a; done > b
for f in a; do done
for f in a do b; done
for ((;;)); do a; done
for f in a; { b; }
for f in a; do b; done c
> x for f in a; do b; done
for f in a > b; do c; done
""")
UNUSUAL_CHARACTERS = [
    *["", " ", "\t", "\n", "ls\n", "a\nb", "a\\\nb", "'a\nb'", "a\r", "a\rb", "a\0b", "\\\t"],
    *["é", "'é'", "a\xa0b", "a\x7f", "'a\x01b'", '"\x1b"', "\ufeffls", "\u0661>a"],
]
TOO_MUCH = [
    "x" * (MAX_CHARACTERS + 1),
    "a|" * MAX_COMMANDS + "a",
    "$(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH,
]


@pytest.mark.parametrize("text", [*NOT_PLAIN, *UNUSUAL_CHARACTERS, *TOO_MUCH])
def test_anything_else_is_left_to_shfmt(text: str) -> None:
    assert plain_tree(text) is None


@pytest.mark.parametrize("text", ["x " * (MAX_CHARACTERS // 2), "a|" * (MAX_COMMANDS - 1) + "a"])
def test_the_longest_lines_are_the_same_too(text: str) -> None:
    tree = plain_tree(text)
    assert tree is not None
    assert tree == tree_of_shfmt(text)


def test_the_lines_of_the_corpus() -> None:
    lines = [*BENIGN, *BYPASSES]
    for text in lines:
        assert_same_or_none(text)
    assert sum(plain_tree(text) is not None for text in BENIGN) > len(BENIGN) * 0.8


def moved(node: Any, offset: int, line: int) -> Any:
    """A tree as it would stand further down in a text."""
    if isinstance(node, list):
        return [moved(item, offset, line) for item in node]
    if not isinstance(node, dict):
        return node
    if "Offset" in node:
        return {"Offset": node["Offset"] + offset, "Line": line, "Col": node["Col"]}
    return {key: moved(value, offset, line) for key, value in node.items()}


def assert_same_in_one_text(lines: list[str]) -> None:
    """A plain line means the same with others above it and below it, so that many are asked for at once."""
    expected: list[Any] = []
    offset = 0
    for number, text in enumerate(lines, 1):
        tree = plain_tree(text)
        assert tree is not None
        expected += moved(tree["Stmts"], offset, number)
        offset += len(text) + 1
    answer = tree_of_shfmt("\n".join(lines))
    if answer is None or answer["Stmts"] != expected:
        for text in lines:
            assert_same_or_none(text)
        pytest.fail("the lines differ only together")


def short_texts(alphabet: str, longest: int) -> Iterator[str]:
    for length in range(1, longest + 1):
        for characters in itertools.product(alphabet, repeat=length):
            yield "".join(characters)


def in_hundreds(lines: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(lines)
    while batch := list(itertools.islice(waiting, 100)):
        yield batch


# Each with what may change the meaning of its neighbours.
@pytest.mark.parametrize("alphabet", ["a =+[]#", "a2>&<|; ", "a\"'\\ $;", "a$({)} &", "a!*?~-{}>"])
def test_every_short_text_of_an_alphabet(alphabet: str) -> None:
    for lines in in_hundreds(text for text in short_texts(alphabet, 4) if plain_tree(text)):
        assert_same_in_one_text(lines)


PIECES = [
    *" \t;&|<>()$'\"\\`#!{}[]=+-*?~@%^:,./_a2\n\r\0é",
    *["  ", " ", " ", " ", "echo ", "rm ", "git show "],
    *["&&", "||", "|&", ";;", ";&", ">>", ">&", "&>", "&>>", ">|", "<>", "<&", "<<", "<<<", "2>&1", "2>"],
    *["10>x", "{fd}>", "A=", "A=1 ", "A+=", "A[0]=", "a=b", "''", '""', "'a b'", '"a b"', '"$x"', '"$(a)"'],
    *["$x", "${x}", "$1", "$?", "$@", "$$", "$!", "$(", "$((", "${x:-y}", "$'a'", '$"a"', "$[1]", "\\ "],
    *['\\"', "\\$", "\\;", "\\#", "\\[", " #", "a#b", "! ", "!(", "*(", "[ ", "[a]", "[[", "]]"],
    *["if ", "for ", "for f in ", "; do ", "; done", "done", "while ", "case ", "time ", "export ", "let "],
    "for f in a b; do echo $f; done",
]
NEAR = st.one_of(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=10).map("".join),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map(" ".join),
    st.tuples(
        st.sampled_from([*LINES, *BENIGN]), st.integers(0, 80), st.integers(0, 3), st.sampled_from(PIECES)
    ).map(lambda change: change[0][: change[1]] + change[3] + change[0][change[1] + change[2] :]),
)


@settings(max_examples=500)
@given(st.lists(NEAR, min_size=5, max_size=20))
def test_lines_near_the_edges_of_the_grammar(lines: list[str]) -> None:
    assert_same_in_one_text([text for text in lines if plain_tree(text)] or ["ls"])
