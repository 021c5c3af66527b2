"""Which directories git takes for repositories although they are not called `.git`, by the names in them.

Facts about git (setup.c, is_git_directory): whoever runs git somewhere runs it in the nearest directory above
that has a valid `HEAD` and, in itself or where its `commondir` leads, `objects` and `refs`; and git then runs
what the configuration and the hooks there name. No protected name is needed for that: `config` and `hooks`
are anybody's. So the last of the names that make such a directory is refused, whichever it is.
What is a git directory by its name (`.git`, and those of modules in it) may have them all, since its
configuration and hooks are protected there. So it must not get another name; and nothing else that lies in
one is one.
"""

from collections.abc import Callable

from pinfold.model.protected_names import NameRule, components, split_git_path

COMPLETED_BY = {
    "head": (("objects", "refs"), ("commondir",)),
    "objects": (("HEAD", "refs"),),
    "refs": (("HEAD", "objects"),),
    "commondir": (("HEAD",),),
}
"""For each name, folded, the sets of others that it would make a repository with."""
REMAINS = frozenset(("HEAD", "objects", "refs", "commondir", "config", "hooks"))
"""What makes a repository, and what it obeys, which no command takes away: without any of it, it is gone."""

COMPLETING = NameRule(
    "HEAD with objects and refs",
    "git runs what a repository in any directory tells it to; one in /tmp is fine",
    grantable=False,
)
"""The rule about the last name that makes such a directory. No answer can grant it: a command may write every
other file in the directory, so a yes to one name would be a yes to all."""


def completes(name: str, is_there: Callable[[str], bool]) -> bool:
    """Whether this name (folded) makes its directory a repository, with what is there."""
    return any(all(map(is_there, others)) for others in COMPLETED_BY.get(name, ()))


def is_git_by_name(path: str) -> bool:
    return split_git_path(components(path)).is_git


def is_repository(is_there: Callable[[str], bool]) -> bool:
    """Whether a directory is one for git, with what is there."""
    return is_there("HEAD") and completes("head", is_there)


def lacks_only_head(is_there: Callable[[str], bool]) -> bool:
    """Whether it looks like a repository whose HEAD was taken away: whoever gives it one again has the
    configuration that it has by then."""
    return not is_there("HEAD") and all(map(is_there, ("objects", "refs", "config")))
