"""Decides whether a caller may make, move or change a protected name.

`NameCheck` holds the rules (`model.protected_names`) against the path that the kernel reports. Exemptions
(`git`) may still allow a change. What stays denied becomes a question to a person if one can be asked
(`questions`), and otherwise a violation.
"""

import errno
import os
import stat
from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import NamedTuple

from pinfold.kernel import fast_calls
from pinfold.kernel.files import may_exist
from pinfold.model import git_repositories
from pinfold.model.codes import ViolationCode
from pinfold.model.git_repositories import COMPLETING, is_git_by_name, is_repository
from pinfold.model.protected_names import GIT, Match, Matches, NameMatcher, NameRule, folded, key_in
from pinfold.sandbox.linux.protocol.warden import Denial
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.paths import PathTarget
from pinfold.sandbox.linux.warden.questions import Fallback, PendingQuestions
from pinfold.sandbox.linux.warden.violations import NOT_ASKED, ViolationLog

PROTECTED, HELD = errno.EROFS, errno.EBUSY
"""The errors of a write to, and a rename of, a protected name that exists, as of a read-only mount."""
OUTSIDE = NameRule("", "it is outside the writable directories", code=ViolationCode.OUTSIDE)
"""The rule where no protected name is involved, but the directory may not be written at all."""
CHANGING = ("open", "rename", "unlink", "rmdir", "truncate", "chmod")
"""Calls that change what exists; all others fail by themselves if the name exists."""
ONLY_NEW = ("mkdir", "mknod", "symlink", "link")
"""Those others: they answer EEXIST then, on a read-only file system too."""
MOST_INSIDE = 10_000
"""How many entries of a moved directory are checked if it moves from or to where names are protected."""
UNSEEN = "its contents cannot be checked"
HeldFile = tuple[str, int]
"""The path of a file that is to get another name, and our descriptor of it."""


class ProtectedChange(NamedTuple):
    """A call that would create, rename away or change a protected name."""

    operation: str
    target: PathTarget
    match: Match
    other: PathTarget | None
    """The other end of a rename or link."""


class ExemptionResult(Enum):
    DENY = "refused"
    ANSWERED = "answered"
    """The exemption made the change in a safe way, and the caller has its answer."""
    ALLOW = "go on"
    """The name counts as unprotected: the warden makes it, or the kernel answers."""


Exemption = Callable[[Caller, ProtectedChange], ExemptionResult | None]
"""May allow a change of a protected name; None if the change is not this exemption's concern."""


class NameCheck:
    def __init__(self, records: ViolationLog, matcher: NameMatcher) -> None:
        self.records = records
        self.matcher = matcher
        self.exemptions: list[Exemption] = []
        self.questions: PendingQuestions | None = None
        """Holds calls until a person has answered, if a person can be asked."""
        self.sees_all_changes = False
        """Whether calls that the kernel will refuse are checked too, to be asked about or recorded."""

    def check(
        self,
        caller: Caller,
        operation: str,
        target: PathTarget,
        directory: bool = False,
        other: PathTarget | HeldFile | None = None,
    ) -> bool:
        """The one place that decides about a protected name; True if the caller has its answer.

        Every step on the way to a protected name (`.git` of `.git/hooks`) must be a real directory. A
        symbolic link would lead to names that were not checked, and a file named `.git` points git to another
        directory.
        """
        matches = target.matches() or completes(target)
        if not matches or (directory and matches[0].rest):
            return False
        if matches[0].unless_file and matches[0].rest and _makes_file(operation, other):
            return False
        change = ProtectedChange(
            operation, target, matches[0], other if isinstance(other, PathTarget) else None
        )
        result = self._exempted(caller, change) or ExemptionResult.DENY
        if result is ExemptionResult.DENY:
            self.refuse(caller, operation, target, matches[0], other)
        return result is not ExemptionResult.ALLOW

    def is_exempt(self, caller: Caller, operation: str, target: PathTarget) -> bool:
        """Whether an exemption leaves a change of a protected name to the kernel, so that no person need be
        asked."""
        matches = target.matches()
        change = ProtectedChange(operation, target, matches[0], None) if matches else None
        return change is not None and self._exempted(caller, change) is ExemptionResult.ALLOW

    def _exempted(self, caller: Caller, change: ProtectedChange) -> ExemptionResult | None:
        results = (exemption(caller, change) for exemption in self.exemptions)
        return next((result for result in results if result is not None), None)

    def check_move(self, caller: Caller, source: PathTarget, target: PathTarget) -> bool:
        """Checks that a thing may leave the source and arrive at the target; True if the caller has its
        answer."""
        status = source.status()
        if status is None:
            caller.refuse(_why_missing(source, target))
            return True
        directory = stat.S_ISDIR(status.st_mode)
        protection = source.protected_by()
        if protection is None and directory:
            protection = protected_inside(self.matcher, source, source)
        if protection:
            self.refuse(caller, "rename", source, protection, onto=target)
            return True
        if directory and (gained := protected_inside(self.matcher, source, target)):
            self.refuse(caller, "rename", target, gained)
            return True
        return self.check(caller, "rename", target, directory=directory, other=source)

    def pass_to_kernel(
        self,
        caller: Caller,
        operation: str,
        target: PathTarget,
        source: PathTarget | HeldFile | None = None,
        onto: PathTarget | None = None,
        match: Match | None = None,
    ) -> None:
        """Lets the kernel answer a call in a directory where the warden makes no names. If the caller may not
        write there, a person is asked, or the denial is recorded. `onto`: the new name of what moves from or
        to there."""
        parent, path = target.parent, target.path
        is_recorded = not parent.caller_creates and (operation in CHANGING or target.status() is None)

        def fall_back(denial: Denial) -> None:
            if is_recorded:
                self.record(caller, operation, path, OUTSIDE, denial)
            caller.resume()

        if parent.caller_creates or parent.warden_creates:
            fall_back(NOT_ASKED)
        else:
            self._ask(caller, operation, onto or target, fall_back, match, source)

    def pass_protected_to_kernel(
        self, caller: Caller, operation: str, target: PathTarget, match: Match
    ) -> None:
        """Lets the kernel answer a change of a thing that has a read-only mount of its own."""
        path = target.path

        def fall_back(denial: Denial) -> None:
            self.record(caller, operation, path, match.rule, denial)
            caller.resume()

        self._ask(caller, operation, target, fall_back, match)

    def refuse(
        self,
        caller: Caller,
        operation: str,
        target: PathTarget | str,
        match: Match,
        source: PathTarget | HeldFile | None = None,
        onto: PathTarget | None = None,
    ) -> None:
        """Denies a call because of a protected name. `onto` is the name it would be moved or linked to."""
        destination = onto or (target if isinstance(target, PathTarget) else None)
        if operation in ONLY_NEW and destination and destination.status() is not None:
            # The kernel says EEXIST on any file system: nothing was to be gained, and `mkdir -p` goes on.
            caller.refuse(errno.EEXIST)
            return
        path = target if isinstance(target, str) else target.path
        is_moved = operation == "rename" and isinstance(target, PathTarget) and target.status()
        error = HELD if is_moved else PROTECTED

        def refuse(denial: Denial) -> None:
            self.record(caller, operation, path, match.rule, denial)
            caller.refuse(error)

        origin = target if onto and isinstance(target, PathTarget) else source
        if destination:
            self._ask(caller, operation, destination, refuse, match, origin)
        else:
            refuse(NOT_ASKED)

    def _ask(
        self,
        caller: Caller,
        operation: str,
        target: PathTarget,
        fallback: Fallback,
        match: Match | None,
        source: PathTarget | HeldFile | None = None,
    ) -> None:
        """Holds the call until a person has answered, or answers it by the fallback at once."""
        if not (self.questions and self.questions.ask(caller, operation, target, fallback, match, source)):
            fallback(NOT_ASKED)

    def record(
        self, caller: Caller, operation: str, path: str, rule: NameRule, denial: Denial = NOT_ASKED
    ) -> None:
        """`denial` is what came of asking a person, if one was asked."""
        tag, program = caller.identify()
        reported = rule._replace(why=f"{rule.why}; {denial.text}") if denial.text else rule
        self.records.add(tag, operation, path, reported, program, caller.pid, denial)


def _makes_file(operation: str, source: PathTarget | HeldFile | None) -> bool:
    """Whether it is certain that a regular file gets the name."""
    status: os.stat_result | None = None
    if isinstance(source, PathTarget):
        status = source.status() if operation == "rename" else None
    elif source and operation == "link":
        status = os.fstat(source[1])
    return operation == "open" or (status is not None and stat.S_ISREG(status.st_mode))


def _why_missing(*targets: PathTarget) -> int:
    """The errno of a rename without a source: the directory at either end may be closed to us."""
    for target in targets:
        try:
            os.stat(target.name.rstrip(b"/"), dir_fd=target.directory, follow_symlinks=False)
        except PermissionError:
            return errno.EACCES
        except OSError:
            continue
    return errno.ENOENT


def completes(target: PathTarget) -> Matches:
    """The rule against a name that would make its directory a repository, if this is one."""
    if target.key not in git_repositories.COMPLETED_BY or git_repositories.is_git_by_name(target.parent.path):
        return ()  # true of nearly all
    found = git_repositories.completes(target.key, lambda name: may_exist(target.directory, name))
    # A checkout replaces HEAD, which makes no repository. The exact spelling counts: on a file system that
    # ignores case, a walk would not find another spelling.
    is_replaced = target.name == b"HEAD" and target.status() is not None
    return (Match(COMPLETING),) if found and not is_replaced else ()


def protected_inside(matcher: NameMatcher, source: PathTarget, target: PathTarget) -> Match | None:
    """The first protected name inside a directory, at its present path or at the path it would move to."""
    if target.matches() or _is_git(target) or _is_git(source):
        return _inner(matcher, source.directory, source.name.rstrip(b"/"), target.path, [MOST_INSIDE])
    return None


def _is_git(target: PathTarget) -> bool:
    """Whether the path contains a git directory, or would be one."""
    return target.parent.in_git or target.key == GIT


def _inner(matcher: NameMatcher, directory: int, name: bytes, path: str, left: list[int]) -> Match | None:
    """The first protected name in a directory, if it were at this path. What cannot be read counts as
    protected."""
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
                return Match(COMPLETING)
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
