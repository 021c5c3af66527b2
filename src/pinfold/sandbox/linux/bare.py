"""Whether a name would make its directory a git repository that is not called `.git`.

Facts about git (setup.c, is_git_directory): whoever runs git somewhere runs it in the nearest directory above
that has a valid `HEAD` and, in itself or where its `commondir` leads, `objects` and `refs`; and git then runs
what the configuration and the hooks there name. No protected name is needed for that: `config` and `hooks`
are anybody's. So the last of the names that make such a directory is refused, whichever it is.
What is a git directory by its name (`.git`, and those of modules in it) may have them all, since its
configuration and hooks are protected there. So it must not get another name; and nothing else that lies in
one is one.
"""

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from pinfold.model.names import GIT, Match, Matches, NameRule, components, unnested

if TYPE_CHECKING:
    from pinfold.sandbox.linux.spots import Spot

RULE = NameRule(
    "HEAD with objects and refs",
    "git runs what a repository in any directory tells it to; one in /tmp is fine",
    grantable=False,
)
"""Nobody is asked: all else in it is anybody's to write, so a yes to one name would be a yes to all."""
COMPLETED_BY = {
    "head": (("objects", "refs"), ("commondir",)),
    "objects": (("HEAD", "refs"),),
    "refs": (("HEAD", "objects"),),
    "commondir": (("HEAD",),),
}
"""For each name, the sets of others that it would make a repository with."""


def completes(spot: "Spot") -> Matches:
    groups = COMPLETED_BY.get(spot.key)
    if groups is None or is_git_by_name(spot.place.path):  # nearly all have none
        return ()
    return (Match(RULE),) if any(all(_is_there(spot, name) for name in group) for group in groups) else ()


def is_git_by_name(path: str) -> bool:
    return unnested(components(path))[0][-1:] == [GIT]


def is_repository(names: Collection[str]) -> bool:
    """Whether a directory with these names in it, folded, is one for git."""
    return "head" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def _is_there(spot: "Spot", name: str) -> bool:
    try:
        os.stat(name, dir_fd=spot.directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
