"""Brace expansion: `a{b,c}` is two words, `{1..3}` three.

Works on atoms: an unquoted character, or anything else as an opaque value. It does not know what the opaque
values are.

Facts about bash: it expands braces before everything else. A pair without a comma on its own level and
without a valid range stays as written, and bash still expands the text inside. A range counts only if all of
it is plain text. An unmatched `{` is a character like any other.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

MAX_WORDS = 256


class Quoted(str):
    """A quoted character: it has no special meaning."""

    __slots__ = ()


Atom: TypeAlias = object
"""A plain `str` of one character may be special; `Quoted` and everything else is not."""


class TooMany(Exception):  # noqa: N818
    """There are too many words to list, or a range has an unclear meaning."""


def expand(atoms: Sequence[Atom]) -> list[list[Atom]]:
    """Every word that `atoms` expand to, in bash's order."""
    for at, end, commas in sorted(_pairs(atoms)):
        choices = _choices(atoms[at + 1 : end], [comma - at - 1 for comma in commas])
        if choices is not None:
            return _product(atoms[:at], choices, atoms[end + 1 :])
        # Not an expansion: the brace is a character, and an expansion may follow.
    return [list(atoms)]


def _product(before: Sequence[Atom], choices: list[list[Atom]], after: Sequence[Atom]) -> list[list[Atom]]:
    tails = expand(after)
    if len(choices) * len(tails) > MAX_WORDS:
        raise TooMany
    return [[*before, *choice, *tail] for choice in choices for tail in tails]


def _is(atom: Atom, character: str) -> bool:
    return type(atom) is str and atom == character


def _pairs(atoms: Sequence[Atom]) -> Iterator[tuple[int, int, list[int]]]:
    """For each pair of braces: where it opens, where it closes, and the commas of its own level."""
    opened: list[tuple[int, list[int]]] = []
    for index, atom in enumerate(atoms):
        if _is(atom, "{"):
            opened.append((index, []))
        elif opened and _is(atom, "}"):
            at, commas = opened.pop()
            yield at, index, commas
        elif opened and _is(atom, ","):
            opened[-1][1].append(index)


def _choices(inner: Sequence[Atom], commas: list[int]) -> list[list[Atom]] | None:
    if commas:
        pieces = [inner[a + 1 : b] for a, b in zip([-1, *commas], [*commas, len(inner)], strict=True)]
        words = [word for piece in pieces for word in expand(piece)]
        if len(words) > MAX_WORDS:
            raise TooMany
        return words
    if all(type(atom) is str for atom in inner):
        return _range("".join(str(atom) for atom in inner))
    return None


def _range(text: str) -> list[list[Atom]] | None:
    ends = text.split("..")
    if len(ends) not in (2, 3):
        return None
    step = _number(ends[2]) if len(ends) == 3 else 1
    if step is None:
        return None
    first, last = _number(ends[0]), _number(ends[1])
    if first is not None and last is not None:
        width = max(map(len, ends[:2])) if any(map(_is_padded, ends[:2])) else 0
        return [list(_padded(number, width)) for number in _count(first, last, step)]
    if len(ends[0]) == len(ends[1]) == 1 and (ends[0] + ends[1]).isalpha() and (ends[0] + ends[1]).isascii():
        return [[_letter(code)] for code in _count(ord(ends[0]), ord(ends[1]), step)]
    return None


def _number(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > 9:
        raise TooMany
    return int(text)


def _is_padded(text: str) -> bool:
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits.startswith("0")


def _padded(number: int, width: int) -> str:
    return f"{number:0{width}d}"


def _count(first: int, last: int, step: int) -> range:
    step = abs(step) or 1
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > MAX_WORDS:
        raise TooMany
    return numbers


def _letter(code: int) -> str:
    if not chr(code).isalpha():
        raise TooMany  # a backslash and a backquote lie between Z and a
    return chr(code)
