"""`parse` as a whole: total, bounded, exact about places, quick on lines it knows."""

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.model.errors import PinfoldError
from pinfold.model.script import Script
from pinfold.model.text_positions import Span
from pinfold.shell import parse, shfmt
from pinfold.shell.shfmt import NoAnswer, ParserTrouble, TookTooLong
from pinfold.shell.syntax import load_tree
from pinfold.shell.tree_text import Node

NOTHING = ["", "   ", "\n\n", "# only a comment", "\t# x\n"]


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_to_run(text: str) -> None:
    assert parse(text) == Script(text)


PROBLEMS = [
    ("ls\0; p", "contains a NUL character", Span(2, 3)),
    ("x" * 10_001, "longer than 10,000 characters", None),
    ("echo a\\\r\np", "a carriage return before a newline", Span(7, 8)),
    ("echo $\\\n(p)", "a line continuation inside of an expansion", Span(5, 6)),
    ("ls # a\\\np", "a comment that ends with a backslash", Span(3, 4)),
    ("a; b\ud800", "contains characters that are not valid UTF-8", Span(4, 5)),
]


@pytest.mark.parametrize(("text", "problem", "span"), PROBLEMS)
def test_problems(text: str, problem: str, span: Span | None) -> None:
    script = parse(text)
    assert (script.problem, script.problem_span) == (problem, span)


@pytest.mark.parametrize("text", ["ls |", "if", "echo 'a", "echo $(", "cat <<$'E'\nx\nE"])
def test_what_cannot_be_read_is_a_problem(text: str) -> None:
    assert parse(text).problem


def test_spans_count_characters() -> None:
    text = "echo 'é' && rm ü; (cat <q)"
    assert [text[c.span.start : c.span.end] for c in parse(text).commands] == ["echo 'é'", "rm ü", "cat <q"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("cd é && bash -c 'rm a; rm b'", ["rm a", "rm b"]),
        ("cd é && bash <<'E'\nrm a\nrm b\nE", ["rm a", "rm b"]),
        ("cd é && eval rm a';' rm b", ["rm a';' rm b"] * 2),
        # What quoting changes has no place of its own.
        ("cd é && bash -c $'rm a\\nrm b'", ["$'rm a\\nrm b'"] * 2),
    ],
)
def test_a_nested_text_stands_where_it_is_written(text: str, places: list[str]) -> None:
    inner = [c for c in parse(text).commands if c.via]
    assert [c.text for c in inner] == ["rm a", "rm b"]
    assert [text[c.span.start : c.span.end] for c in inner] == places
    assert all([w.source for w in (c.directories or ((),))[0]] == ["é"] for c in inner)


DEEP = [
    "bash -c " * 20 + "x",
    "; ".join(f"eval 'a{n}'" for n in range(100)),
    "a;" * 1200,
    "env " * 2000 + "x",
]


@pytest.mark.parametrize("text", DEEP)
def test_bounds_are_problems(text: str) -> None:
    start = time.monotonic()
    script = parse(text)
    assert time.monotonic() - start < 100  # unbounded, these take minutes
    assert script.problem or any(unknown.runs for unknown in script.unknowns)


def test_a_known_line_is_remembered() -> None:
    assert parse("ls remembered") is parse("ls remembered")


class Failing:
    """A parser that fails once in the given way, and works from then on."""

    def __init__(self, trouble: Exception) -> None:
        self.troubles = [trouble]

    def load_tree(self, text: str) -> Node:
        if self.troubles:
            raise self.troubles.pop()
        return load_tree(text)


def test_trouble_of_the_machine_is_not_remembered() -> None:
    for number, trouble in enumerate((TookTooLong("too long"), NoAnswer("died"), ParserTrouble("other"))):
        text = f"ls machine {number}"
        parser = Failing(trouble)
        assert parse(text, parser=parser).problem
        assert not parse(text, parser=parser).problem


def test_trouble_of_the_machine_inside_of_the_line_is_not_remembered() -> None:
    class Second(Failing):
        def load_tree(self, text: str) -> Node:
            return super().load_tree(text) if text.startswith("rm") else load_tree(text)

    parser = Second(TookTooLong("too long"))
    text = "eval 'rm machine'"
    assert [c.program for c in parse(text, parser=parser).commands] == ["eval"]
    assert [c.program for c in parse(text, parser=parser).commands] == ["eval", "rm"]


def test_trouble_of_the_text_is_remembered() -> None:
    assert parse("if remembered") is parse("if remembered")


def test_a_missing_parser_is_no_property_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "ls # without a parser"
    with monkeypatch.context() as patch:
        patch.setattr(shfmt, "_binary", [])
        patch.setattr(sys, "path", [])
        with pytest.raises(PinfoldError, match=r"the shell parser is missing.*; install") as error:
            parse(text)
        assert "\n" not in str(error.value)
    assert not parse(text).problem


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("ab$(){}[]<>|&;'\"`\\ \n=~*?!#-:@%/,.1\t\réx")), max_size=30))
def test_parse_is_total(text: str) -> None:
    script = parse(text)
    assert script.text == text
    for command in script.commands:
        assert 0 <= command.span.start <= command.span.end <= len(text)


@pytest.mark.parametrize("line", ["chown {} f", "chown 0:+{} f", "cat {}<f", "sh -s {}<<< x", "exec {}>f"])
def test_long_numbers_are_judged(line: str) -> None:
    """Python converts no text of more than 4,300 digits."""
    assert parse(line.format("9" * 5000)).text


@pytest.mark.parametrize("line", ["cat 99999999999<f", "git push 99999999999>f", "{ sh; } 99999999999<<< x"])
def test_a_number_beyond_descriptors_is_a_word_to_bash(line: str) -> None:
    script = parse(line)
    assert script.problem or any(unknown.runs for unknown in script.unknowns)


def test_a_descriptor_with_zeros_is_standard_input() -> None:
    [command] = parse("cat 00<f").commands
    assert [each.target.literal for each in command.inputs] == ["f"]
