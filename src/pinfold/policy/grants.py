"""A call that waits for an answer: its key, whether a person may grant it, and what a grant covers. Pure.

INVARIANT: no answer grants a path that is hidden, belongs to pinfold, or is protected for good or by the
administrator; nor one that the administrator's cap leaves out.
"""

import stat
from collections.abc import Collection, Sequence
from posixpath import dirname
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.context import Context
from pinfold.model.decision import Widening
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.protected_names import GIT
from pinfold.model.settings import Settings
from pinfold.policy.hidden_paths import OF_AGENT, hidden_by, shown_in
from pinfold.policy.paths import contains, is_covered
from pinfold.policy.shipped_protected import NOT_GRANTABLE, Grantable, protected_by
from pinfold.policy.widen import with_approved

ANYWHERE = ("/",)
REMOVING = ("unlink", "rmdir")
TREE = "rmtree"
"""The operation of a question about deleting a directory with all that is in it."""
WRITE = "write"
APART = ("rename", "link", "chmod", "mkdir")
"""Operations with an answer of their own: a grant of one of them to a path is no grant to write the path, nor
the files in it."""
GIT_WRITES = Widening("block_git_writes", "false")


class GrantContext(Struct, frozen=True):
    """What decides whether a call may be granted: policy, roots, home, pinfold's own files and settings."""

    policy: SandboxPolicy
    roots: tuple[str, ...]
    home: str
    own: tuple[str, ...]
    """Files that pinfold reads, runs or writes."""
    settings: Settings

    @classmethod
    def of(cls, context: Context, policy: SandboxPolicy | None = None) -> "GrantContext":
        """For grants under a policy, or else under the user's own."""
        return cls(policy or context.policy, context.roots, context.home, context.own(), context.settings)

    @property
    def writable(self) -> tuple[str, ...]:
        if self.policy.type is not PolicyType.WORKSPACE_READWRITE:
            return ()
        return (*self.roots, *self.policy.additional_readwrite_paths)


class Grants(Struct, frozen=True):
    """What a person has allowed for the rest of a session."""

    paths: frozenset[str] = frozenset()
    """Files that commands may write."""
    directories: frozenset[str] = frozenset()
    git: bool = False
    others: frozenset[tuple[str, ...]] = frozenset()
    """Deletions and the operations in `APART`, each by its key."""


def key_of(
    operation: str, paths: tuple[str, ...], is_git_writes: bool, text: str = "", tree: str = ""
) -> tuple[str, ...]:
    """The key of an answer: all git writes, a deleted tree, or exactly these paths.

    `text` is the target of a new link, or a new mode.
    """
    if tree:
        return TREE, tree
    if is_git_writes:
        git = _git_directory(paths[0])
        if all(contains(git, path) for path in paths):
            return "git", git
    kind = WRITE if is_write(operation) else "remove" if operation in REMOVING else operation
    return f"{operation} {text}" if text else kind, *paths


def is_write(operation: str) -> bool:
    """Whether a grant of this operation is a grant to write the path by any call."""
    return operation not in (*APART, *REMOVING, TREE, "symlink")


class GrantObjection(NamedTuple):
    """Why a person may not grant a call."""

    message: str
    by_administrator: bool = False


def objection(
    key: tuple[str, ...], operation: str, paths: tuple[str, ...], context: GrantContext
) -> GrantObjection | None:
    """Why a person may not grant this call, or None if they may."""
    for path in paths:
        if hidden_by(path, context.policy, context.roots):
            return GrantObjection(f"it is hidden, and {NOT_GRANTABLE}")
        if shown_in(path, context.policy):
            return GrantObjection(f"{OF_AGENT}, and {NOT_GRANTABLE}")
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
    """Whether one of these paths is inside `outer`."""
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
        widening = Widening("additional_readwrite_paths", path)
        if not is_covered(path, with_approved(context.policy, (widening,), cap).additional_readwrite_paths):
            return "your administrator's settings do not allow it"
    return ""


def covers(grants: Grants, key: tuple[str, ...], context: GrantContext, rule: str = "") -> bool:
    """Whether a session's grants allow this key.

    `rule` is the rule that the warden found violated. It may concern more than these paths, such as files
    beside them. So it does not count that commands may already write these paths.
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
    """Whether commands may write the path without a grant."""
    in_git = context.policy.block_git_writes and GIT in path.split("/")
    if in_git or not is_covered(path, context.writable):
        return False
    return protected_by(path, context.writable, context.policy.protected) is None


def granted(grants: Grants, key: tuple[str, ...], context: GrantContext, directory: str = "") -> Grants:
    """The grants with what this answer adds: its paths, or a whole directory."""
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
    """The source of a rename or link that commands may not change without a grant; empty if there is none."""
    return "" if key[0] == "git" else next((path for path in key[2:] if not _is_free(path, context)), "")


def directory_to_offer(key: tuple[str, ...], context: GrantContext) -> str:
    """The directory that a question may offer as a whole; empty if that would grant too much."""
    if key[0] in ("git", TREE):
        return ""
    directory = dirname(key[1])
    is_open = is_covered(directory, context.writable)
    return "" if is_open or is_too_much(directory, context) else directory


def is_too_much(directory: str, context: GrantContext) -> bool:
    """Whether a directory is too much to offer: it contains the home, a project or hidden files."""
    hidden = [path for path in context.policy.hidden if path.startswith("/")]
    kept = (context.home, *context.roots, *context.own, *hidden)
    return directory.count("/") < 2 or is_covered_by(kept, directory)


def widened(
    policy: SandboxPolicy, grants: Grants, own: SandboxPolicy, context: GrantContext
) -> SandboxPolicy:
    """A later command's policy with the grants; `own` is the user's policy, which may be wider."""
    if policy.type is not PolicyType.WORKSPACE_READWRITE or grants == Grants():
        return policy
    paths = sorted(
        path for path in (*grants.paths, *grants.directories) if not is_covered(path, context.roots)
    )
    widenings = [Widening("additional_readwrite_paths", path) for path in paths]
    if grants.git and policy.block_git_writes and own.block_git_writes:
        widenings.append(GIT_WRITES)
    return with_approved(policy, widenings, context.settings.cap)


def ungranted(policy: SandboxPolicy, grants: Grants, own: SandboxPolicy) -> SandboxPolicy:
    """Undoes `widened`: the policy without the grants. `own` is the user's policy."""
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
    """A change of mode in words, with its effect: `from 644 to 755: everybody may run it`.

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
    """The classes of users and the rights that these bits give them, classes with equal rights joined."""
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
