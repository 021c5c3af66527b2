"""Whether a path is one that does not exist for agents."""

from functools import lru_cache

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.ignore import Ignore
from pinfold.policy.paths import contains


def hidden_by(path: str, policy: SandboxPolicy, roots: tuple[str, ...]) -> str | None:
    """The pattern or path that hides `path` (absolute, links followed), or None."""
    for entry in policy.hidden:
        if entry.startswith("/") and contains(entry, path):
            return entry
    patterns = tuple(entry for entry in policy.hidden if not entry.startswith("/"))
    for root in roots if patterns else ():
        if contains(root, path) and _compiled(root, patterns).is_ignored(path):
            return next(pattern for pattern in patterns if _compiled(root, (pattern,)).is_ignored(path))
    for root, ignored in policy.ignore_mapping.items():
        if contains(root, path) and _compiled(root, tuple(ignored)).is_ignored(path):
            return f"the ignore files of {root}"
    return None


@lru_cache(maxsize=256)
def _compiled(root: str, patterns: tuple[str, ...]) -> Ignore:
    return Ignore({root: patterns})
