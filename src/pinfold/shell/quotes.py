r"""The values of quoted texts: bash's rules for backslashes, `"..."`, `$'...'` and here-documents.

Works on characters alone: no tree, no words. Every function takes the text between the quotes.

Facts about shfmt: it leaves every backslash in a literal, but removes backslash-newline pairs itself.
"""

_SINGLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_HEX = frozenset("0123456789abcdefABCDEF")
_OCTAL = frozenset("01234567")
_LONGEST = {"x": 2, "u": 4, "U": 8}


def unescape(text: str, special: str) -> str:
    """`text` without the backslash before each character of `special`."""
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in special:
            at += 1
        out.append(text[at])
        at += 1
    return "".join(out)


def undo_double(text: str) -> str:
    return unescape(text, '$`"\\')


def undo_here_document(text: str) -> str:
    return unescape(text, "$`\\")


def undo_ansi_c(text: str) -> str | None:
    r"""The value of `$'text'`, or None where it depends on more than the text.

    A NUL ends the value, as in bash. `\x80` and above are bytes: they count if they make valid UTF-8.
    """
    out = bytearray()
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out += text[at].encode(errors="surrogatepass")
            at += 1
            continue
        value, at = _escape(text, at + 1)
        if value is None:
            return None
        if value == b"\0":
            break
        out += value
    try:
        return out.decode()
    except UnicodeDecodeError:
        return None


def _escape(text: str, at: int) -> tuple[bytes | None, int]:
    """The bytes of the escape whose letter is at `at`, and where the text continues."""
    letter = text[at]
    if letter in _SINGLE:
        return _SINGLE[letter].encode(), at + 1
    if letter in _OCTAL:
        digits = _digits(text, at, _OCTAL, 3)
        return bytes([int(digits, 8) & 0xFF]), at + len(digits)
    if letter in _LONGEST:
        digits = _digits(text, at + 1, _HEX, _LONGEST[letter])
        if not digits:
            # `\x{41}` is an extension whose reach differs between versions.
            return (None if text[at + 1 : at + 2] == "{" else b"\\" + letter.encode()), at + 1
        number = int(digits, 16)
        end = at + 1 + len(digits)
        if letter == "x":
            return bytes([number]), end
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            return None, end
        return chr(number).encode(), end
    if letter == "c":
        control = text[at + 1 : at + 2]
        if not control or control in "\\'" or not control.isascii():
            return None, at + 2
        return (b"\x7f" if control == "?" else bytes([ord(control.upper()) & 0x1F])), at + 2
    return b"\\" + letter.encode(errors="surrogatepass"), at + 1


def _digits(text: str, at: int, alphabet: frozenset[str], longest: int) -> str:
    end = at
    while end < len(text) and end - at < longest and text[end] in alphabet:
        end += 1
    return text[at:end]


def split_like_env(text: str) -> list[str] | None:
    """The words that `env -S` makes of a string; None where it holds an escape, a variable or an open quote.

    Facts about GNU env: blanks part words, both quotes join them, and a `#` that begins a word begins a
    comment: of this string, never of the operands that follow it. `\\'` is known inside of single quotes too.
    """
    if set(text) & set("\\$"):
        return None
    words: list[str] = []
    word: str | None = None
    quote = ""
    for c in text:
        if quote:
            word, quote = (word or "", "") if c == quote else ((word or "") + c, quote)
        elif c in "'\"":
            word, quote = word or "", c
        elif c in " \t\n\v\f\r":
            words += [] if word is None else [word]
            word = None
        elif c == "#" and word is None:
            break
        else:
            word = (word or "") + c
    if quote:
        return None
    return words if word is None else [*words, word]
