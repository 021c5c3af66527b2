"""Text shown to a person or pasted into a shell: invisible characters spelled out, words quoted.

What a person approves must be what they see. A rule with a zero-width space in it looks like another rule, a
bidirectional override turns a line around, an escape sequence draws over it. So text from elsewhere never
goes to a terminal raw.
"""

# Facts about Unicode: `str.isprintable` is false for control, format (bidi, zero-width, tags),
# surrogate, private and unassigned characters and for every space but U+0020. These draw nothing
# either, yet count as printable: fillers, blanks (braille, hieroglyphs, music's null notehead), joiners and
# variation selectors.
_BLANK = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x2D7F, 0x3164, 0xFFA0, 0x1107F, 0x13441, 0x13442)
).union((0x16FE4, 0x1D159), range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


def is_invisible(character: str) -> bool:
    return not character.isprintable() or ord(character) in _BLANK


def first_invisible(text: str) -> str:
    """The first invisible character in the form `U+200B`, or an empty string."""
    if text.isascii() and text.isprintable():
        return ""
    return next((f"U+{ord(c):04X}" for c in text if is_invisible(c)), "")


def visible(text: str) -> str:
    """The text on one line, each invisible character spelled out, as `\\n`, `\\x1b` or `\\u200b`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(c) if is_invisible(c) else c for c in text)


def visible_json(text: str) -> str:
    """The JSON text with each invisible character but the end of a line written as a JSON escape.

    Preconditions: it is JSON, where such characters occur in strings alone.
    """
    if text.isascii() and "\x7f" not in text:  # of the others in ASCII, JSON has none
        return text
    return "".join(_as_json(c) if c != "\n" and is_invisible(c) else c for c in text)


def _as_json(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _spelled(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+,%@")


def quoted(word: str) -> str:
    """The word as a shell line has to spell it."""
    if word and set(word) <= PLAIN:
        return word
    return "'" + word.replace("'", "'\\''") + "'"
