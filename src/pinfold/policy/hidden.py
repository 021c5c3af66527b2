"""Whether a path is one that does not exist for agents."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.ignore import Asked, Ignore

IGNORE_FILES = "an ignore file"
DEEPEST = 256
"""Components; nobody keeps files deeper, and what is not looked at is hidden."""


class _Entries(NamedTuple):
    """A policy's hidden entries, made ready for many questions."""

    paths: frozenset[str]
    patterns: tuple[str, ...]


def hidden_by(path: str, policy: SandboxPolicy, roots: tuple[str, ...]) -> str | None:
    """The pattern or path that hides `path` (absolute, links followed), or None."""
    if path.count("/") > DEEPEST:
        return "its depth"
    entries = _entries(policy.hidden)
    for place in _upwards(path):
        if place in entries.paths:
            return place
    for entry in entries.patterns:
        if any(_compiled(root, entry).is_ignored(path) for root in (roots if is_pattern(entry) else ("/",))):
            return entry
    if policy.ignore_mapping and _ignore(tuple(policy.ignore_mapping.items())).is_ignored(path):
        return IGNORE_FILES
    return None


class Hiding:
    """A policy's hidden things, for somebody who walks down a tree and leaves out what is hidden."""

    def __init__(self, policy: SandboxPolicy, roots: tuple[str, ...]) -> None:
        entries = _entries(policy.hidden)
        self.paths = entries.paths
        """Those that are plain paths: no walk is needed to find them."""
        self._in: dict[str, set[str]] = {}
        for path in entries.paths:
            directory, _, name = path.rpartition("/")
            self._in.setdefault(directory or "/", set()).add(name)
        # Each entry is asked by itself: a `!` in one takes nothing back from another.
        counted = [entry for entry in entries.patterns if not entry.startswith("!")]
        self.globs = tuple(entry for entry in counted if not is_pattern(entry))
        """Those that are paths with patterns in them."""
        names = tuple(entry for entry in counted if is_pattern(entry))
        mapping = dict.fromkeys(roots, names) if names else {}
        if self.globs:
            mapping["/"] = self.globs
        self._ignores = [Ignore(each) for each in (mapping, policy.ignore_mapping) if each]

    def within(self, directory: str) -> Asked | None:
        """Asks which names in a directory, itself not hidden, are; None if surely none is."""
        if directory.count("/") >= DEEPEST:
            return lambda _, __: True
        here = self._in.get(directory)
        asked: list[Asked] = [ask for ignore in self._ignores if (ask := ignore.within(directory))]
        if here is not None:
            asked.append(lambda name, _: name in here)
        if len(asked) <= 1:
            return asked[0] if asked else None
        return lambda name, is_directory: any(ask(name, is_directory) for ask in asked)


def is_pattern(entry: str) -> bool:
    """A bare name, which hides whatever has that name in a root; else a path, which may have globs."""
    return not entry.startswith("/")


def _upwards(path: str) -> Iterator[str]:
    """The path, and every directory above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield "/"


@lru_cache(maxsize=16)
def _entries(hidden: tuple[str, ...]) -> _Entries:
    plain = frozenset(
        entry for entry in hidden if not is_pattern(entry) and not any(c in entry for c in "*?[")
    )
    return _Entries(plain, tuple(entry for entry in hidden if entry not in plain))


@lru_cache(maxsize=16)
def _ignore(mapping: tuple[tuple[str, tuple[str, ...]], ...]) -> Ignore:
    return Ignore(dict(mapping))


@lru_cache(maxsize=256)
def _compiled(root: str, pattern: str) -> Ignore:
    return Ignore({root: (pattern,)})
