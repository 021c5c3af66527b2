"""Git's wildmatch patterns as regular expressions over bytes.

Facts about wildmatch.c: with WM_PATHNAME `*` and `?` stop at `/`, and so does a set; `**` crosses
directories only as a whole component; `[!` and `[^` negate; a `]` right after the opening is a member;
an unclosed set, an unknown class and a trailing backslash match nothing.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

# git's own ctype: ASCII only, and its `space` knows neither \v nor \f.
_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb" \t\n\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_NEVER = rb"(?!)"


MOST_STARS = 8


def is_costly(pattern: bytes) -> bool:
    """Whether a pattern has so many stars that matching it may take exponential time."""
    return len([run for run in pattern.replace(b"?", b"").split(b"*") if run]) > MOST_STARS


def expression(pattern: bytes, *, crosses: bool) -> "re.Pattern[bytes]":
    """wildmatch as a regular expression; `crosses` is git's match of a bare name, where `*` is anything.

    Each star but the last tries the nearest end first and never comes back to it (an atomic group):
    what follows a star is of one length, so the nearest end leaves the most for the rest. Stars of both
    kinds in turn (`**/a*/**/a*/`) cannot be tied so: ask `is_costly` first.
    """
    import re

    pieces: list[bytes] = []  # runs of one-byte matches, and the stars between them
    at = 0
    while at < len(pattern):
        if pattern[at : at + 1] == b"*":
            piece, at = _stars(pattern, at, crosses)
        elif pattern[at : at + 1] == b"[":
            piece, at = _bracket(pattern, at)
        elif pattern[at : at + 1] == b"?":
            piece, at = rb"[^/]", at + 1
        else:
            at += pattern[at : at + 1] == b"\\"
            piece, at = re.escape(pattern[at : at + 1]) if at < len(pattern) else _NEVER, at + 1
        pieces.append(piece)
    return re.compile(_atomic(pieces), re.DOTALL)


_STARS = frozenset({rb"[^/]*", rb".*", rb"(?:[^/]*/)*"})


def _atomic(pieces: list[bytes]) -> bytes:
    stars = [at for at, piece in enumerate(pieces) if piece in _STARS]
    if not stars:
        return b"".join(pieces)
    out = b"".join(pieces[: stars[0]])
    for star, following in pairwise(stars):
        run = b"".join(pieces[star + 1 : following])
        # A star that crosses slashes may begin anew behind one that does not, so only like is tied to like.
        tied = pieces[star] == pieces[following] and run
        out += rb"(?>" + pieces[star] + rb"?" + run + rb")" if tied else pieces[star] + run
    return out + b"".join(pieces[stars[-1] :])


def _stars(pattern: bytes, at: int, crosses: bool) -> tuple[bytes, int]:
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    if crosses:
        return rb".*", end
    if end - at >= 2 and (at == 0 or pattern[at - 1 : at] == b"/"):
        if pattern[end : end + 1] == b"/":
            return rb"(?:[^/]*/)*", end + 1
        if end == len(pattern) or pattern[end : end + 2] == b"\\/":
            return rb".*", end
    return rb"[^/]*", end


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The set that opens at `at`, and where it ends; wildmatch.c's loop, step by step."""
    broken = (_NEVER, len(pattern))
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: list[bytes] = []
    before, first = -1, True
    while first or pattern[at : at + 1] != b"]":
        first = False
        if at >= len(pattern):
            return broken
        byte = pattern[at]
        if byte == ord("-") and before > 0 and pattern[at + 1 : at + 2] not in (b"", b"]"):
            at += 1
            at += pattern[at] == ord("\\")
            if at >= len(pattern):
                return broken
            if before <= pattern[at]:
                members.append(rb"\x%02x-\x%02x" % (before, pattern[at]))
            before = -1
        elif pattern.startswith(b"[:", at) and (end := pattern.find(b"]", at + 2)) < 0:
            return broken
        elif pattern.startswith(b"[:", at) and end > at + 2 and pattern[end - 1 : end] == b":":
            name = pattern[at + 2 : end - 1]
            if name not in _CLASSES:
                return broken
            members.append(_CLASSES[name])
            before, at = -1, end
        else:
            at += byte == ord("\\")
            if at >= len(pattern):
                return broken
            before = pattern[at]
            members.append(rb"\x%02x" % before)
        at += 1
    inside = b"".join(members)
    if negated:
        return rb"[^/" + inside + rb"]", at + 1
    return (rb"(?!/)[" + inside + rb"]" if inside else _NEVER), at + 1
