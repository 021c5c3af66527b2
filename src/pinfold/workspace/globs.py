"""Patterns of paths, read as widely as any shell may read them. Pure.

Facts (bash(1), Pathname Expansion and `shopt`):
- `[^x]` is `[!x]`, and `[[:alpha:]]`, `[[=e=]]` and `[[.e.]]` are one set each. Python's fnmatch knows none.
- A pattern that matches nothing is kept as it is.
- nocaseglob, dotglob, globstar and extglob change what a pattern matches; `shopt`, `bash -O` and other ways
  set them, so that a line does not show whether they are.

What this means for us: what is uncertain matches anything. Too much is a question, too little a secret read.
"""

import re
from collections.abc import Iterator

EXTENDED = r"[?*+@!]\("
_ONE = r"[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_.]"
_TOKEN = rf"\[[*?[]\]|\[!(?:{_ONE})+\]|\[(?:{_ONE})+\]|\[.*\]|\[.*|."
"""A character that is meant, a set that all read alike, what else may be one up to the last bracket."""


def widened(pattern: str) -> str | None:
    """A pattern for Python's `glob`, recursive, that matches at least as much; None if there is none."""
    if re.search(EXTENDED, pattern):
        return None
    return "/".join(_widened(part) if is_wild(part) else part for part in pattern.split("/"))


def literals(pattern: str) -> tuple[str, ...]:
    """What a pattern that matches nothing may mean: the brackets of `[*]` may be `Word.pattern`'s."""
    return pattern, re.sub(r"\[([*?[])\]", r"\1", pattern)


def is_wild(part: str) -> bool:
    return any(character in part for character in "*?[")


def ways(pattern: str) -> Iterator[str]:
    """The beginnings of a pattern that match several things, and the whole of it."""
    parts = pattern.split("/")
    for end, part in enumerate(parts, 1):
        if end == len(parts) or is_wild(part):
            yield "/".join(parts[:end])


def _widened(part: str) -> str:
    return "".join(map(_wide, re.findall(_TOKEN, part, re.DOTALL)))


def _wide(token: str) -> str:
    if token.startswith("["):
        inside = token[1:-1]
        if not re.fullmatch(rf"!?(?:{_ONE})+|[*?[]", inside) or not token.endswith("]"):
            return "*"
        return token if inside[0] in "!*?[" else f"[{inside}{inside.swapcase()}]"
    return (
        f"[{token}{token.swapcase()}]" if token.swapcase() != token and len(token.swapcase()) == 1 else token
    )
