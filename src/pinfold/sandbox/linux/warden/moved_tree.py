"""What a directory that is moved would take along: a protected name of where it is or of where it comes."""

import os
from itertools import islice

from pinfold.kernel import fast_calls
from pinfold.model.git_repositories import is_git_by_name, is_repository
from pinfold.model.protected_names import GIT, Match, NameMatcher, NameRule, folded, key_in
from pinfold.sandbox.linux.warden.bare_repository import RULE
from pinfold.sandbox.linux.warden.paths import Spot

MOST_INSIDE = 10_000
"""How many names are looked at in a directory that is moved to, or from, where names are protected."""
UNSEEN = "what it holds cannot be told"


def taken_along(matcher: NameMatcher, source: Spot, spot: Spot) -> Match | None:
    """The protected name that a directory has in it, or would have at another spot."""
    if spot.matches() or _is_git(spot) or _is_git(source):
        return _inner(matcher, source.directory, source.name.rstrip(b"/"), spot.path, [MOST_INSIDE])
    return None


def _is_git(spot: Spot) -> bool:
    """Whether a git directory is on the way to it, or it would be one."""
    return spot.place.in_git or spot.key == GIT


def _inner(matcher: NameMatcher, directory: int, name: bytes, path: str, left: list[int]) -> Match | None:
    """The first protected name in a directory, were it at this path. What cannot be seen is one."""
    children = matcher.children(path)
    if isinstance(children, Match):
        return children
    inner = fast_calls.openat(directory, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if inner < 0:
        return Match(NameRule(path, UNSEEN))
    try:
        with os.scandir(inner) as listed:
            entries = list(islice(listed, left[0] + 1))
            names = {folded(entry.name) for entry in entries}
            if not is_git_by_name(path) and is_repository(lambda each: folded(each) in names):
                return Match(RULE)
            for entry in entries:
                left[0] -= 1
                found = children.get(key_in(children, folded(entry.name)), ())
                below = f"{path}/{entry.name}"
                if left[0] < 0:
                    return Match(NameRule(path, UNSEEN))
                if not entry.is_dir(follow_symlinks=False):
                    if found:
                        return found[0]
                elif found and not found[0].rest:
                    return found[0]
                elif deeper := _inner(matcher, inner, os.fsencode(entry.name), below, left):
                    return deeper
    finally:
        os.close(inner)
    return None
