"""A change of mode, as a person reads it. Pure."""

import stat
from collections.abc import Sequence

_CLASSES = (("its owner", 6), ("its group", 3), ("others", 0))
_READ, _WRITE, _EXECUTE = 4, 2, 1
_SPECIAL = (("setgid", stat.S_ISGID), ("sticky", stat.S_ISVTX))


def change_of_mode(old: int, new: int) -> str:
    """Both modes, and what that lets whom do: `from 644 to 755: everybody may run it`.

    `old` is a file's `st_mode`, with its type.
    """
    rights = ((_READ, "read"), (_WRITE, "write"), (_EXECUTE, "enter" if stat.S_ISDIR(old) else "run"))
    before = stat.S_IMODE(old)
    said = []
    for bits, may, becomes in (
        (new & ~before, "may", "becomes"),
        (before & ~new, "may no longer", "is no longer"),
    ):
        said += [f"{who} {may} {_joined(what)} it" for who, what in _told(bits, rights)]
        said += [f"it {becomes} {name}" for name, bit in _SPECIAL if bits & bit]
    return f"from {before:03o} to {new:03o}: {'; '.join(said) or 'nothing changes'}"


def _told(bits: int, rights: Sequence[tuple[int, str]]) -> list[tuple[str, tuple[str, ...]]]:
    """Who gets what of these bits, those that get the same together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for who, shift in _CLASSES:
        what = tuple(name for bit, name in rights if bits >> shift & bit)
        if what:
            together.setdefault(what, []).append(who)
    return [
        ("everybody" if len(who) == len(_CLASSES) else _joined(who), what) for what, who in together.items()
    ]


def _joined(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]
