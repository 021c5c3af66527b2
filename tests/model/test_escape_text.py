"""Which characters a person sees."""

import pytest

from pinfold.model.escape_text import first_invisible, visible

BLANK = [0x200B, 0x202E, 0x2800, 0x3164, 0xFE0F, 0x2D7F, 0x1107F, 0x13441, 0x13442, 0x16FE4, 0x1D159, 0xE0100]


@pytest.mark.parametrize("code", BLANK, ids=hex)
def test_what_draws_nothing_is_spelled_out(code: int) -> None:
    assert first_invisible(f"a{chr(code)}") == f"U+{code:04X}"
    spelled = visible(f"a{chr(code)}b")
    assert spelled.isascii() and f"{code:x}b" in spelled


@pytest.mark.parametrize("text", ["é", "漢", "\u05d0", "/a b/c", "\U0001d15a"])
def test_what_is_seen_stays(text: str) -> None:
    assert visible(text) == text and not first_invisible(text)
