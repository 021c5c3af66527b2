"""Which directories git takes for repositories although they are not called `.git`, by the names in them.

Facts about git (setup.c, is_git_directory): git works in the nearest directory at or above the current one
that has a valid `HEAD` and, in itself or where its `commondir` leads, `objects` and `refs`. It then runs what
the configuration and the hooks there name.

No protected name is needed for that: any directory may have a `config` and `hooks`. So Pinfold denies the
last of the names that make such a directory, whichever it is.

A git directory by name (`.git`, and those of modules in it) may have all of them, since its configuration and
hooks are protected. So it must not get another name. Nothing else that lies in a git directory is one.
"""

from collections.abc import Callable

from pinfold.model.protected_names import NameRule, components, split_git_path

COMPLETED_BY = {
    "head": (("objects", "refs"), ("commondir",)),
    "objects": (("HEAD", "refs"),),
    "refs": (("HEAD", "objects"),),
    "commondir": (("HEAD",),),
}
"""For each name, folded, the sets of other names with which it makes a repository."""
REMAINS = frozenset(("HEAD", "objects", "refs", "commondir", "config", "hooks"))
"""The names that make a repository, and what it obeys. Commands may not remove them: without all of them,
the repository is gone."""

COMPLETING = NameRule(
    "HEAD with objects and refs",
    "these names make a git repository, and git runs what its configuration says; make it under /tmp",
    grantable=False,
)
"""The rule about the last name that makes such a directory. No answer can grant it: a command may write every
other file in the directory, so a yes to one name would be a yes to all."""


def completes(name: str, is_there: Callable[[str], bool]) -> bool:
    """Whether this name (folded) makes its directory a repository, together with the names already there."""
    return any(all(map(is_there, others)) for others in COMPLETED_BY.get(name, ()))


def is_git_by_name(path: str) -> bool:
    return split_git_path(components(path)).is_git


def is_repository(is_there: Callable[[str], bool]) -> bool:
    """Whether git takes a directory with these names for a repository."""
    return is_there("HEAD") and completes("head", is_there)


def lacks_only_head(is_there: Callable[[str], bool]) -> bool:
    """Whether a directory looks like a repository whose HEAD was removed. Restoring the HEAD makes git obey
    the configuration that the directory has by then."""
    return not is_there("HEAD") and all(map(is_there, ("objects", "refs", "config")))
