"""What counts as a key, and what is nobody's answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.approval.keystrokes import Edited, single_key


@pytest.mark.parametrize(
    ("piece", "key"),
    [
        # A key alone, or with Enter after it
        (b"y", "y"),
        (b"y\n", "y"),
        (b"y\r", "y"),
        ("ä".encode(), "ä"),
        (b"\n", ""),
        (b"\r", ""),
        (b"\x04", "\x04"),
        # More than a key
        (b"yes", None),
        (b"yy", None),
        (b"y\ny\n", None),
        (b"\ny", None),
        (b" y", None),
        # Arrows, and what terminals report
        (b"\x1b", None),
        (b"\x1b[A", None),
        (b"\x1b[24;80R", None),
        (b"\x1b]ly\x1b\\", None),
        (b"\x1by", None),
        # Enough of it all
        (b"\x03", "\x03"),
        (b"\x1c", "\x03"),
        (b"yy\x03", "\x03"),
    ],
)
def test_single_key(piece: bytes, key: str | None) -> None:
    assert single_key(piece) == key


@given(st.binary(min_size=1))
def test_whatever_begins_with_escape_is_no_answer(rest: bytes) -> None:
    assert single_key(b"\x1b" + rest) in (None, "\x03")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"\r"], "touch"),
        ([b" made\r"], "touch made"),
        ([b"\x7f\x7f", b"gh", b"\r"], "tough"),
        ([b"\x15ls\r"], "ls"),
        ([b"\x1b[A", b"\x1b[31m", b"\r"], "touch"),
        ([b"\x07\x00\r"], "touch"),
        ([b"\rls"], "touch"),
        (["\u202eä".encode(), b"\r"], "touchä"),
    ],
)
def test_a_line_is_edited(pieces: list[bytes], text: str) -> None:
    line = Edited("touch")
    for piece in pieces:
        line.type(piece)
    assert line.is_done and line.text == text and not line.is_left


def test_escape_leaves_and_ctrl_c_interrupts() -> None:
    for piece, left, interrupted in ((b"\x1b", True, False), (b"\x04", True, False), (b"a\x03", False, True)):
        line = Edited("touch")
        line.type(piece)
        assert (line.is_left, line.is_interrupted, line.is_done) == (left, interrupted, False)
