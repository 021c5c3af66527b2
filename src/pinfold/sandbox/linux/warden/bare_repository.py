"""Whether a name that a caller wants would make its directory a repository (`model.repositories`)."""

import os
from typing import TYPE_CHECKING

from pinfold.model import git_repositories
from pinfold.model.protected_names import Match, Matches, NameRule

if TYPE_CHECKING:
    from pinfold.sandbox.linux.warden.paths import Spot

RULE = NameRule(
    "HEAD with objects and refs",
    "git runs what a repository in any directory tells it to; one in /tmp is fine",
    grantable=False,
)
"""Nobody is asked: all else in it is anybody's to write, so a yes to one name would be a yes to all."""


def completes(spot: "Spot") -> Matches:
    if spot.key not in git_repositories.COMPLETED_BY or git_repositories.is_git_by_name(spot.place.path):
        return ()  # which is so of nearly all
    found = git_repositories.completes(spot.key, lambda name: is_there(spot.directory, name))
    # A checkout replaces it, which makes no repository of what was none. In another spelling, where that is
    # the same file, a walk would not find it any more.
    is_replaced = spot.name == b"HEAD" and spot.status() is not None
    return (Match(RULE),) if found and not is_replaced else ()


def is_there(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
