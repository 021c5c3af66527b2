"""Words sorted as getopt would sort them."""

import pytest

from pinfold.model.script import Computed, Glob, Text, Variable, Word, drop_start, literal_word
from pinfold.model.text_positions import Span
from pinfold.shell.options import may_inject, sort_words
from pinfold.shell.programs import chart

SPAN = Span(0, 1)


def words(text: str) -> tuple[Word, ...]:
    return tuple(literal_word(word, SPAN) for word in text.split())


@pytest.mark.parametrize(
    ("program", "text", "flags", "operands"),
    [
        # clusters, permutation, abbreviation
        ("rm", "-rf x", "-r -f", "x"),
        ("rm", "x -fr", "-f -r", "x"),
        ("rm", "--recursive --force x", "-r -f", "x"),
        ("rm", "--rec x", "-r", "x"),
        ("rm", "-- -rf", "", "-rf"),
        ("rm", "- -R", "-r", "-"),
        # values: attached, separate, after a cluster, after `=`
        ("sort", "-ofile x", "-o", "x"),
        ("sort", "-o file x", "-o", "x"),
        ("sort", "-uo file x", "-u -o", "x"),
        ("sort", "--output=file x", "-o", "x"),
        ("sort", "--outp file x", "-o", "x"),
        ("sort", "x --comp=y", "--compress-program", "x"),
        # optional values are only ever attached
        ("grep", "--color x y", "--color", "x y"),
        ("grep", "--color=always x y", "--color", "x y"),
        # numbers
        ("head", "-20 x", "-20", "x"),
        # posix: options end at the first operand
        ("timeout", "-s KILL 5 rm -rf x", "-s", "5 rm -rf x"),
        ("env", "-u A B=1 rm -rf", "-u", "B=1 rm -rf"),
        ("env", "- rm", "-i", "rm"),
        # options after the host
        ("ssh", "host -p 22 rm -rf x", "-p", "host rm -rf x"),
        # single dash
        ("find", ". -name x ( -type f ) ! -empty", "-name ( -type ) ! -empty", "."),
        ("gcc", "-Iinclude -c -o y x.c", "-I -c -o", "x.c"),
        # bare clusters, whose values follow in order
        ("tar", "cfC x.tar dir y", "-c -f -C", "y"),
        ("tar", "-cf x.tar y", "-c -f", "y"),
        # two words of value
        ("jq", "--arg a b .x f", "--arg", ".x f"),
        # plus
        ("bash", "+e -c x", "-e -c", "x"),
    ],
)
def test_sorted(program: str, text: str, flags: str, operands: str) -> None:
    known = chart(program)
    assert known is not None
    sorted_words = sort_words(known, words(text))
    assert " ".join(given.name for given in sorted_words.given) == flags
    assert " ".join(word.source for word in sorted_words.operands) == operands


def test_an_ambiguous_abbreviation_counts_as_the_risky_one() -> None:
    known = chart("rg")
    assert known is not None
    assert sort_words(known, words("--pr ./x a")).given[0].name == "--pre"


def test_a_value_that_reads_like_a_risky_option_is_doubted() -> None:
    known = chart("sort")
    assert known is not None
    assert sort_words(known, words("-t -o x")).doubts


def test_an_unknown_option_does_not_let_a_double_dash_hide_what_follows() -> None:
    known = chart("git.log")
    assert known is not None
    assert "--output" in [g.name for g in sort_words(known, words("--whatever -- --output=x")).given]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # a single word that may begin with a dash
        (Word('"$X"', SPAN, (Variable("X", True),)), True),
        (Word("*", SPAN, (Glob("*"),)), True),
        (Word("-$X", SPAN, (Text("-"), Variable("X", True))), True),
        # a word that may become several
        (Word("a$X", SPAN, (Text("a"), Variable("X", False))), True),
        (Word("a$(x)", SPAN, (Text("a"), Computed("command substitution", False))), True),
        # neither
        (Word('a"$X"', SPAN, (Text("a"), Variable("X", True))), False),
        (Word("./*", SPAN, (Text("./"), Glob("*"))), False),
        (Word("-x", SPAN, (Text("-x"),)), False),
    ],
)
def test_what_may_inject(word: Word, expected: bool) -> None:
    assert may_inject(word) is expected


@pytest.mark.parametrize(
    ("program", "word", "doubted"),
    [
        ("sort", Word("*.txt", SPAN, (Glob("*"), Text(".txt"))), True),
        ("find", Word("*.py", SPAN, (Glob("*"), Text(".py"))), False),
        ("find", Word("*ete", SPAN, (Glob("*"), Text("ete"))), True),
        ("git.log", Word('"--format=$X"', SPAN, (Text("--format="), Variable("X", True))), False),
        ("git.log", Word("--format=$X", SPAN, (Text("--format="), Variable("X", False))), True),
    ],
)
def test_doubts(program: str, word: Word, doubted: bool) -> None:
    known = chart(program)
    assert known is not None
    assert bool(sort_words(known, (word,)).doubts) is doubted


def test_drop() -> None:
    word = Word("--a=b$X", SPAN, (Text("--a="), Text("b"), Variable("X", True)))
    assert drop_start(word, 4).parts == (Text("b"), Variable("X", True))
    assert drop_start(word, 4).source == "b$X"
