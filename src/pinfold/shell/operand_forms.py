"""Operands that may be written in several ways: a file's mode, its owner, a service's unit.

Rules compare words, so each is brought to one form where its meaning is certain.

Facts about chmod: clauses count from left to right; without a letter before the sign the umask has a say.
"""

import re

FORMS = frozenset({"mode", "owner", "unit"})
ROOT = {"root": "0"}
CLAUSE = r"([ugoa]+)((?:[-+=][rwx]*)+)"
ACTION = r"([-+=])([rwx]*)"
BITS = {"r": 4, "w": 2, "x": 1}
SHIFTS = {"u": 6, "g": 3, "o": 0}
EVERY_BIT = 0o777


def in_one_form(roles: list[str], text: str) -> str:
    """The operand in the one form that its role has; as it is where it has none."""
    for role in roles:
        match role:
            case "mode":
                return _mode(text)
            case "owner":
                return _owner(text)
            case "unit":
                return text.removesuffix(".service")
    return text


def _mode(text: str) -> str:
    """`0777`, `=777`, `a=rwx` and `ugo+rwx` make the same of every file."""
    if re.fullmatch(r"=?[0-7]+", text):
        return text.lstrip("=0") or "0"
    clauses = text.split(",")
    if not all(re.fullmatch(CLAUSE, clause) for clause in clauses):
        return text
    least, most = (_after(clauses, mode) for mode in (0, EVERY_BIT))
    return f"{least:o}" if least == most else text


def _after(clauses: list[str], mode: int) -> int:
    for clause in clauses:
        letters, actions = re.fullmatch(CLAUSE, clause).groups()  # type: ignore[union-attr]
        shifts = [SHIFTS[each] for each in ("ugo" if "a" in letters else letters)]
        for sign, bits in re.findall(ACTION, actions):
            value = sum(BITS[bit] for bit in set(bits))
            for shift in shifts:
                if sign == "=":
                    mode &= ~(7 << shift)
                mode = mode & ~(value << shift) if sign == "-" else mode | (value << shift)
    return mode


def _owner(text: str) -> str:
    """`root`, `0`, `+0` and `root:root` with its group."""
    owner, sign, group = re.fullmatch(r"(?s)([^:.]*)([:.]?)(.*)", text).groups()  # type: ignore[union-attr]
    return _number_of(owner) + (":" if sign else "") + _number_of(group)


def _number_of(name: str) -> str:
    number = ROOT.get(name, name)
    digits = number.removeprefix("+")
    return digits.lstrip("0") or "0" if digits.isascii() and digits.isdecimal() else number
