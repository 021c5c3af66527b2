"""Text from elsewhere, made fit for a terminal.

What a person approves must be what they see, so a character that draws nothing, moves the cursor or
turns the direction of reading is shown by its code point, never sent raw.
"""

# Unicode categories without a shape of their own: controls, format characters (bidi, zero-width, tags),
# lone surrogates, private use, unassigned, separators other than the ordinary space.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters and marks that draw nothing either: Hangul fillers, the blank Braille pattern, variation selectors.
BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5") | {chr(0xFE00 + n) for n in range(16)}


def is_unseen(character: str) -> bool:
    if character.isascii():
        return not " " <= character <= "~"
    from unicodedata import category

    return category(character) in UNSEEN or character in BLANK or 0xE0100 <= ord(character) <= 0xE01EF


def escape(text: str) -> str:
    """The text on one line, everything unseen as `\\n`, `\\x1b` or `\\u{202e}`."""
    return "".join(_shown(character) if is_unseen(character) else character for character in text)


def _shown(character: str) -> str:
    simple = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if simple:
        return simple
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
