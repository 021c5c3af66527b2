"""A call that waits: what its answer is about, whether anybody may grant it, and what a grant covers. Pure.

INVARIANT: what is hidden, pinfold's own, protected for good or by the administrator is nobody's to grant; nor
is what the administrator's cap leaves out.
"""

import stat
from collections.abc import Collection, Sequence
from posixpath import dirname
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.decision import Widening
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.protected_names import GIT
from pinfold.model.settings import Settings
from pinfold.policy.hidden_paths import hidden_by
from pinfold.policy.paths import contains, is_covered
from pinfold.policy.shipped_protected import NOT_GRANTABLE, Grantable, protected_by
from pinfold.policy.widen import with_approved

ANYWHERE = ("/",)
REMOVING = ("unlink", "rmdir")
TREE = "rmtree"
"""The operation of a question about deleting a directory with all that is in it."""
WRITE = "write"
APART = ("rename", "link", "chmod", "mkdir")
"""Each an answer of its own: who may do one of them to a path may not write it, nor what lies in it."""
GIT_WRITES = Widening("block_git_writes", "false")


class GrantContext(Struct, frozen=True):
    """What a call is judged by."""

    policy: SandboxPolicy
    roots: tuple[str, ...]
    home: str
    own: tuple[str, ...]
    """What pinfold itself obeys, runs or remembers."""
    settings: Settings

    @property
    def writable(self) -> tuple[str, ...]:
        if self.policy.type is not PolicyType.WORKSPACE_READWRITE:
            return ()
        return (*self.roots, *self.policy.additional_readwrite_paths)


class Grants(Struct, frozen=True):
    """What a person has let through for the rest of a session."""

    paths: frozenset[str] = frozenset()
    """What may be written."""
    directories: frozenset[str] = frozenset()
    git: bool = False
    others: frozenset[tuple[str, ...]] = frozenset()
    """Deletions and what else stands apart, each by its key."""


def key_of(
    operation: str, paths: tuple[str, ...], is_git_writes: bool, text: str = "", tree: str = ""
) -> tuple[str, ...]:
    """What an answer is about: git's writes as a whole, a tree that is deleted, or these very paths. `text`
    is where a new link leads, or what a mode is to be."""
    if tree:
        return TREE, tree
    if is_git_writes:
        git = _git_directory(paths[0])
        if all(contains(git, path) for path in paths):
            return "git", git
    kind = WRITE if is_write(operation) else "remove" if operation in REMOVING else operation
    return f"{operation} {text}" if text else kind, *paths


def is_write(operation: str) -> bool:
    """Whether leave for it is leave to write the path, however that is done."""
    return operation not in (*APART, *REMOVING, TREE, "symlink")


class GrantObjection(NamedTuple):
    """Why a person may not grant it."""

    message: str
    by_administrator: bool = False


def objection(
    key: tuple[str, ...], operation: str, paths: tuple[str, ...], context: GrantContext
) -> GrantObjection | None:
    """None if a person may grant it."""
    for path in paths:
        if hidden_by(path, context.policy, context.roots):
            return GrantObjection(f"it is hidden, and {NOT_GRANTABLE}")
        if is_covered(path, context.own) or (operation == "chmod" and is_covered_by(context.own, path)):
            return GrantObjection(f"it belongs to pinfold, and {NOT_GRANTABLE}")
        name = protected_by(path, ANYWHERE, ())
        if name and name.grant is Grantable.NEVER:
            return GrantObjection(NOT_GRANTABLE)
        if _is_managed(path, context):
            return GrantObjection("your administrator protects it", by_administrator=True)
    message = _beyond_cap(key, paths, context)
    return GrantObjection(message, by_administrator=True) if message else None


def is_covered_by(inner: Collection[str], outer: str) -> bool:
    """Whether one of these lies in a path."""
    return any(contains(outer, each) for each in inner)


def _is_managed(path: str, context: GrantContext) -> bool:
    settings = context.settings
    entries = tuple(
        entry
        for place, entry in enumerate(settings.filesystem.protect)
        if settings.origin("filesystem.protect", place).layer == "managed"
    )
    if not entries:
        return False
    name = protected_by(path, ANYWHERE, entries)
    return name is not None and name.name in entries


def _beyond_cap(key: tuple[str, ...], paths: tuple[str, ...], context: GrantContext) -> str:
    cap = context.settings.cap
    if cap.policy.type is PolicyType.WORKSPACE_READONLY:
        return "your administrator's policy is read-only"
    if key[0] == "git":
        closed = with_approved(context.policy, (GIT_WRITES,), cap).block_git_writes
        return "your administrator has blocked git writes" if closed else ""
    for path in paths[:1] if key[0] == "link" else paths:
        if is_covered(path, context.writable):
            continue
        wish = Widening("additional_readwrite_paths", path)
        if not is_covered(path, with_approved(context.policy, (wish,), cap).additional_readwrite_paths):
            return "your administrator's settings do not allow it"
    return ""


def covers(grants: Grants, key: tuple[str, ...], context: GrantContext, rule: str = "") -> bool:
    """Whether a session's grants let it through.

    `rule` is what the warden found in the way. It may be about more than these paths, as about what lies
    beside them: so that commands may write them as they are is no answer to it.
    """
    if key[0] == "git":
        return grants.git
    if key[0] == TREE:
        return key in grants.others or is_covered(key[1], grants.directories)
    given = [_is_granted(path, grants, context) for path in key[1:]]
    if rule and not any(given):
        return key in grants.others
    return key in grants.others or all(
        is_given or _is_free(path, context) for is_given, path in zip(given, key[1:], strict=True)
    )


def _is_granted(path: str, grants: Grants, context: GrantContext) -> bool:
    if path in grants.paths:
        return True
    # What is protected by its name is granted by its name alone.
    return (
        is_covered(path, grants.directories)
        and protected_by(path, ANYWHERE, context.policy.protected) is None
    )


def _is_free(path: str, context: GrantContext) -> bool:
    """Whether commands may write it as it is."""
    in_git = context.policy.block_git_writes and GIT in path.split("/")
    if in_git or not is_covered(path, context.writable):
        return False
    return protected_by(path, context.writable, context.policy.protected) is None


def granted(grants: Grants, key: tuple[str, ...], context: GrantContext, directory: str = "") -> Grants:
    """The grants, and what this answer adds: its paths, or all of a directory."""
    if key[0] == "git":
        return replace(grants, git=True)
    if directory:
        grants = replace(grants, directories=grants.directories | {directory})
    if key[0] != WRITE:
        return replace(grants, others=grants.others | {key})
    paths = {
        path for path in key[1:] if not (_is_free(path, context) or (directory and contains(directory, path)))
    }
    return replace(grants, paths=grants.paths | paths)


def source_of(key: tuple[str, ...], context: GrantContext) -> str:
    """What it would take for its target, beyond what commands may change as it is; empty if nothing."""
    return "" if key[0] == "git" else next((path for path in key[2:] if not _is_free(path, context)), "")


def directory_to_offer(key: tuple[str, ...], context: GrantContext) -> str:
    """The directory that could be granted as a whole; empty where that would be too much."""
    if key[0] in ("git", TREE):
        return ""
    directory = dirname(key[1])
    is_open = is_covered(directory, context.writable)
    return "" if is_open or is_too_much(directory, context) else directory


def is_too_much(directory: str, context: GrantContext) -> bool:
    """Whether nobody is offered a directory as a whole: the home, a project or what is hidden lies in it."""
    hidden = [path for path in context.policy.hidden if path.startswith("/")]
    kept = (context.home, *context.roots, *context.own, *hidden)
    return directory.count("/") < 2 or is_covered_by(kept, directory)


def widened(
    policy: SandboxPolicy, grants: Grants, own: SandboxPolicy, context: GrantContext
) -> SandboxPolicy:
    """A later command's policy, with what was granted; `own` is the user's, which it may be narrower than."""
    if policy.type is not PolicyType.WORKSPACE_READWRITE or grants == Grants():
        return policy
    paths = sorted(
        path for path in (*grants.paths, *grants.directories) if not is_covered(path, context.roots)
    )
    wishes = [Widening("additional_readwrite_paths", path) for path in paths]
    if grants.git and policy.block_git_writes and own.block_git_writes:
        wishes.append(GIT_WRITES)
    return with_approved(policy, wishes, context.settings.cap)


def ungranted(policy: SandboxPolicy, grants: Grants, own: SandboxPolicy) -> SandboxPolicy:
    """The policy that `widened` made this one of. `own` is the user's."""
    if grants == Grants():
        return policy
    kept = {*policy.additional_readwrite_paths} - (grants.paths | grants.directories)
    kept |= {*own.additional_readwrite_paths}
    paths = tuple(path for path in policy.additional_readwrite_paths if path in kept)
    closes_git = grants.git and own.block_git_writes
    return replace(
        policy,
        additional_readwrite_paths=paths,
        block_git_writes=policy.block_git_writes or closes_git,
    )


def _git_directory(path: str) -> str:
    head, git, _ = f"{path}/".partition(f"/{GIT}/")
    return f"{head}/{GIT}" if git else path


_CLASSES = (("its owner", 6), ("its group", 3), ("others", 0))
_READ, _WRITE, _EXECUTE = 4, 2, 1
_SPECIAL = (("setgid", stat.S_ISGID), ("sticky", stat.S_ISVTX))


def change_of_mode(old: int, new: int) -> str:
    """Both modes, and what that lets whom do: `from 644 to 755: everybody may run it`.

    `old` is a file's `st_mode`, with its type.
    """
    rights = ((_READ, "read"), (_WRITE, "write"), (_EXECUTE, "enter" if stat.S_ISDIR(old) else "run"))
    before = stat.S_IMODE(old)
    message = []
    for bits, may, becomes in (
        (new & ~before, "may", "becomes"),
        (before & ~new, "may no longer", "is no longer"),
    ):
        message += [f"{who} {may} {_joined(what)} it" for who, what in _told(bits, rights)]
        message += [f"it {becomes} {name}" for name, bit in _SPECIAL if bits & bit]
    return f"from {before:03o} to {new:03o}: {'; '.join(message) or 'nothing changes'}"


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
