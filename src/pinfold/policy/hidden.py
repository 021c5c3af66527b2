"""Whether a path is one that does not exist for agents."""

from functools import lru_cache

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.ignore import Ignore
from pinfold.policy.paths import contains

IGNORE_FILES = "an ignore file"


def hidden_by(path: str, policy: SandboxPolicy, roots: tuple[str, ...]) -> str | None:
    """The pattern or path that hides `path` (absolute, links followed), or None."""
    for entry in policy.hidden:
        if any(_hides(entry, place, path) for place in (roots if is_pattern(entry) else ("/",))):
            return entry
    if policy.ignore_mapping and _ignore(tuple(policy.ignore_mapping.items())).is_ignored(path):
        return IGNORE_FILES
    return None


def is_pattern(entry: str) -> bool:
    """A bare name, which hides whatever has that name in a root; else a path, which may have globs."""
    return not entry.startswith("/")


def _hides(entry: str, place: str, path: str) -> bool:
    if not is_pattern(entry) and not any(c in entry for c in "*?["):
        return contains(entry, path)
    return contains(place, path) and _compiled(place, (entry,)).is_ignored(path)


@lru_cache(maxsize=16)
def _ignore(mapping: tuple[tuple[str, tuple[str, ...]], ...]) -> Ignore:
    return Ignore(dict(mapping))


@lru_cache(maxsize=256)
def _compiled(root: str, patterns: tuple[str, ...]) -> Ignore:
    return Ignore({root: patterns})
