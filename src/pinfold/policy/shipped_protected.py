"""Names that commands may not write, although they lie in the workspace.

Each is a file that something on the host would run or obey later, without being asked: a git hook, an
editor's task, a shell's start-up file. The list is `data/protected.toml`, with the reason of each.
How a path is held against them is `model.protected_names`.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from posixpath import dirname, join

from msgspec import Struct

from pinfold.model.codes import ViolationCode
from pinfold.model.load_structs import load_as
from pinfold.model.protected_names import GIT, NameMatcher, NameRule
from pinfold.policy.paths import contains, is_covered, normalised

BY_SETTINGS = "your settings protect it"
GIT_BLOCKED = "git writes are blocked"
USED_BY_PINFOLD = "pinfold reads or runs it"
PINFOLD_INSTALLED = "pinfold, or the Python that runs it, is installed there"
NOT_GRANTABLE = "this cannot be granted"


class NameReach(StrEnum):
    ANY = "any"
    """At any depth in a root."""
    TOP = "top"
    """Only directly in a root."""


class Grantable(StrEnum):
    NEVER = "never"
    """No person may allow it."""
    PERSON = "person"


class ProtectedName(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """A path of one or more components; what lies below it is protected with it."""
    why: str
    reach: NameReach = NameReach.ANY
    grant: Grantable = Grantable.PERSON
    code: ViolationCode = ViolationCode.PROTECTED


class _Data(Struct, frozen=True, forbid_unknown_fields=True):
    protected: tuple[ProtectedName, ...]


@lru_cache(maxsize=1)
def protected_names() -> tuple[ProtectedName, ...]:
    return load_as(_Data, join(dirname(__file__), "data", "protected.toml")).protected


def protected_by(
    path: str, roots: tuple[str, ...], entries: tuple[str, ...], *, is_file: bool = False
) -> ProtectedName | None:
    """The protected name that an absolute path is, lies below, or would take along as its directory.

    `entries` are the policy's own: absolute paths, and bare names that hold at any depth. `is_file`: nothing
    but a plain file gets the name.
    """
    matches = _matcher(roots, entries).matches(normalised(path))
    found = [match for match in matches if not (is_file and match.rest and match.unless_file)]
    return _listed(found[0].rule) if found else None


def is_used_by_pinfold(rule: str, own: Callable[[], tuple[str, ...]]) -> bool:
    """Whether a rule covers a path of `own`: what pinfold itself obeys, runs or remembers."""
    return rule.startswith("/") and is_covered(rule, own())


def why_protected(rule: str, why: str, code: ViolationCode, own: Callable[[], tuple[str, ...]]) -> str:
    """A rule's reason. One that no list has is of the user's settings, or of what pinfold is and runs on."""
    if code is not ViolationCode.PROTECTED_BY_SETTINGS or not rule.startswith("/"):
        return why
    if is_used_by_pinfold(rule, own):
        return USED_BY_PINFOLD
    return PINFOLD_INSTALLED if any(contains(rule, path) for path in own()) else why


def name_rules(entries: tuple[str, ...], *, block_git_writes: bool = False) -> tuple[NameRule, ...]:
    """What a pen's warden holds names against: the list, and the policy's own entries."""
    git = (
        (NameRule(GIT, GIT_BLOCKED, is_git_writes=True, code=ViolationCode.GIT_WRITES),)
        if block_git_writes
        else ()
    )
    own = tuple(
        NameRule(normalised(entry), BY_SETTINGS, code=ViolationCode.PROTECTED_BY_SETTINGS)
        for entry in entries
    )
    listed = tuple(
        NameRule(each.name, each.why, each.reach is NameReach.TOP, each.grant is Grantable.PERSON)
        for each in protected_names()
    )
    return (*own, *git, *listed)


@lru_cache(maxsize=16)
def _matcher(roots: tuple[str, ...], entries: tuple[str, ...]) -> NameMatcher:
    return NameMatcher(name_rules(entries), tuple(normalised(root) for root in roots))


def _listed(rule: NameRule) -> ProtectedName:
    reach = NameReach.TOP if rule.top else NameReach.ANY
    return ProtectedName(
        rule.name, rule.why, reach, Grantable.PERSON if rule.grantable else Grantable.NEVER, rule.code
    )
