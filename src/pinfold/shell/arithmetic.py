"""Which expressions bash evaluates in a way that can run text hidden in a value.

Facts about bash: wherever it expects a number, a name is looked up, and its value is evaluated again as an
expression; a subscript in it is expanded. So `x='a[$(cmd)]'; echo $((x))` runs cmd, and so do
`[[ $x -eq 0 ]]`, `${a[$x]}`, `${s:$x}`, `let`, `declare -i`. Only constants are surely harmless.
"""

from collections.abc import Iterator
from typing import Any

from pinfold.shell.words import UnknownNode

_KINDS = {
    "BinaryArithm": ("X", "Y"),
    "UnaryArithm": ("X",),
    "ParenArithm": ("X",),
}
COMPARES_NUMBERS = frozenset(("-eq", "-ne", "-le", "-ge", "-lt", "-gt"))


def leaves(node: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The words at the ends of an expression."""
    if node is None:
        return
    kind = node["Type"]
    if kind == "Word":
        yield node
    elif kind in _KINDS:
        for field in _KINDS[kind]:
            yield from leaves(node[field])
    else:
        raise UnknownNode(f"an unknown kind of arithmetic: {kind}")


def is_number(word: dict[str, Any]) -> bool:
    parts = word["Parts"]
    if len(parts) == 1 and parts[0]["Type"] == "DblQuoted":
        parts = parts[0].get("Parts", ())
    if len(parts) != 1 or parts[0]["Type"] not in ("Lit", "SglQuoted"):
        return False
    value = parts[0].get("Value", "")
    digits = value[1:] if value[:1] in ("-", "+") else value
    return bool(digits) and digits.isascii() and (digits.isdigit() or _is_hexadecimal(digits))


def _is_hexadecimal(text: str) -> bool:
    return text[:2] in ("0x", "0X") and len(text) > 2 and all(c in "0123456789abcdefABCDEF" for c in text[2:])


def is_constant(node: dict[str, Any] | None) -> bool:
    return all(is_number(word) for word in leaves(node))


def is_plain_subscript(node: dict[str, Any]) -> bool:
    """`[3]`, `[@]`, `[*]`: nothing in it is evaluated."""
    if node["Type"] == "Word" and len(node["Parts"]) == 1 and node["Parts"][0].get("Value") in ("@", "*"):
        return True
    return is_constant(node)
