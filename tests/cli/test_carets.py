"""Lines with carets below them."""

import os
import pty
import re
import termios

import pytest
from rich.cells import cell_len

from pinfold.cli.carets import columns_of, draw, spaced, unspaced
from pinfold.cli.output import fold, fold_for_terminal
from pinfold.cli.question_view import QuestionView
from pinfold.model.escape_text import visible
from pinfold.model.permission import Capability
from pinfold.model.text_positions import Span
from tests.approval.questions import question


def test_carets_stand_below_their_part() -> None:
    assert draw("ls && rm x", [Span(0, 2), Span(6, 10)]) == ["  ls && rm x", "  ^^    ^^^^"]


def test_only_the_marked_lines() -> None:
    text = "ls\ngit push\nls"
    assert draw(text, [Span(3, 11)], only_marked=True) == ["  git push", "  ^^^^^^^^"]
    assert draw(text, [Span(3, 11)]) == ["  ls", "  git push", "  ^^^^^^^^", "  ls"]


def test_what_cannot_be_seen_is_spelled_out_and_counted() -> None:
    assert draw("a\x1bb\u202ec", [Span(4, 5)]) == ["  a\\x1bb\\u202ec", "              ^"]


def test_wide_characters() -> None:
    assert draw("日本 x", [Span(3, 4)]) == ["  日本 x", "       ^"]


def test_a_long_line_is_shown_around_its_mark() -> None:
    text = "x" * 500 + " rm " + "y" * 500
    line, carets = draw(text, [Span(501, 503)])
    assert "rm" in line
    assert len(line) < 120
    assert line[carets.index("^") :].startswith("rm")


def test_a_long_line_of_wide_characters_keeps_to_the_width() -> None:
    line, carets = draw("日本" * 40 + " rm x " + "日本" * 40, [Span(81, 85)], width=30)
    shown = line.strip().removeprefix("… ").removesuffix(" …")
    assert sum(1 if character.isascii() else 2 for character in shown) <= 30
    assert carets.strip() == "^^^^"


def test_a_sentence_is_folded_between_words() -> None:
    line = "pinfold: refused open /a/path/that-is-longer-than-a-line: why"
    assert fold(line, 24) == [
        "pinfold: refused open",
        "  /a/path/that-is-longer-than-a-line:",
        "  why",
    ]
    assert fold("    rule          one two three", 26, 18) == [
        "    rule          one two",
        " " * 18 + "three",
    ]


def test_what_programs_read_is_one_line() -> None:
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, 60))
        assert max(map(len, fold_for_terminal("word " * 40, theirs))) < 60
    finally:
        os.close(ours)
        os.close(theirs)
    with open(os.devnull) as nobody:
        assert fold_for_terminal("word " * 40, nobody.fileno()) == ["word " * 40]


def test_every_character_is_folded_by_the_columns_that_a_terminal_gives_it() -> None:
    """Rich takes the vowel signs of many scripts for narrower than terminals draw them."""
    for code in range(0x80, 0x20000):
        character = chr(code)
        if visible(character) == character:
            assert unspaced(spaced(character)) == character
            assert cell_len(spaced(character)) >= columns_of(character)


@pytest.mark.parametrize("character", ["\u093e", "\u0bbe", "\u1161", "\U00011131", "x"])
def test_no_line_of_a_question_is_wider_than_the_terminal(character: str) -> None:
    path = "/" + character * 900
    asked = question(capability=Capability.WRITE, path=path, operation="open", cwd=path, description=path)
    lines = QuestionView().question(asked, 80, 24)
    plain = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines]
    assert max(sum(map(columns_of, line)) for line in plain) < 80
    assert "".join(plain).count(character) >= 1800
