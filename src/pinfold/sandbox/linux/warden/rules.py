"""Whether a name that a caller wants made may be made: the rules' word, and what may be said against it."""

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
from pinfold.sandbox.linux.warden.elevation import Asking
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.paths import Spot
from pinfold.sandbox.linux.warden.violations import NOT_ASKED, Records

PROTECTED, HELD = errno.EROFS, errno.EBUSY
"""What a protected name that exists answers too, since it is mounted read-only: to a write, to a rename."""
OUTSIDE = NameRule("", "it lies outside of what may be written", code=ViolationCode.OUTSIDE)
"""Where no name is in the way, but the place as such is closed."""
CHANGING = ("open", "rename", "unlink", "rmdir", "truncate", "chmod")
"""Calls that change what is there; the others fail by themselves if something is."""
ONLY_NEW = ("mkdir", "mknod", "symlink", "link")
"""Those others: EEXIST is what they say then, on a file system that is read-only too."""
MOST_INSIDE = 10_000
"""How many names are looked at in a directory that is moved to, or from, where names are protected."""
UNSEEN = "what it holds cannot be told"
Held = tuple[str, int]
"""Where something that is to get another name lies, and our descriptor of it."""


class Wish(NamedTuple):
    """A protected name is wanted, would be given away, or what has it be changed."""

    operation: str
    spot: Spot
    match: Match
    other: Spot | None
    """The other end of a rename or link."""


class Verdict(Enum):
    REFUSED = "refused"
    ANSWERED = "answered"
    """It was done in another way, and the caller has its answer."""
    GO_ON = "go on"
    """As if the name were any other: it is made, or the kernel answers."""


Exemption = Callable[[Caller, Wish], Verdict | None]
"""What may still be said for a protected name that is wanted; None if it is no matter of this one."""


class Judge:
    def __init__(self, records: Records, matcher: NameMatcher) -> None:
        self.records = records
        self.matcher = matcher
        self.exemptions: list[Exemption] = []
        self.asking: Asking | None = None
        """Who puts a call aside until a person has answered, if anybody can be asked."""
        self.looks = False
        """Whether what the kernel will refuse by itself is looked at, to be asked about or noted."""

    def judge(
        self,
        caller: Caller,
        operation: str,
        spot: Spot,
        directory: bool = False,
        other: Spot | Held | None = None,
    ) -> bool:
        """The one place where a protected name that is wanted is judged: True if the caller has its answer.

        On the way to a protected name (`.git` of `.git/hooks`) only real directories may stand: a link would
        lead to names that nobody judged, and a file named `.git` leads git to another directory.
        """
        matches = spot.matches() or completes(spot)
        if not matches or (directory and matches[0].rest):
            return False
        if matches[0].unless_file and matches[0].rest and _makes_file(operation, other):
            return False
        wish = Wish(operation, spot, matches[0], other if isinstance(other, Spot) else None)
        verdict = self._exempted(caller, wish) or Verdict.REFUSED
        if verdict is Verdict.REFUSED:
            self.refuse(caller, operation, spot, matches[0], other)
        return verdict is not Verdict.GO_ON

    def is_exempt(self, caller: Caller, operation: str, spot: Spot) -> bool:
        """Whether the kernel is to answer a change of a protected name, and nobody need be asked about it."""
        matches = spot.matches()
        wish = Wish(operation, spot, matches[0], None) if matches else None
        return wish is not None and self._exempted(caller, wish) is Verdict.GO_ON

    def _exempted(self, caller: Caller, wish: Wish) -> Verdict | None:
        verdicts = (exemption(caller, wish) for exemption in self.exemptions)
        return next((verdict for verdict in verdicts if verdict is not None), None)

    def judge_move(self, caller: Caller, source: Spot, spot: Spot) -> bool:
        """Whether something may leave the one name for the other; True if the caller has its answer."""
        status = source.status()
        if status is None:
            caller.refuse(_why_missing(source, spot))
            return True
        directory = stat.S_ISDIR(status.st_mode)
        lost = source.protected_by()
        if lost is None and directory:
            lost = taken_along(self.matcher, source, source)
        if lost:
            self.refuse(caller, "rename", source, lost, onto=spot)
            return True
        if directory and (gained := taken_along(self.matcher, source, spot)):
            self.refuse(caller, "rename", spot, gained)
            return True
        return self.judge(caller, "rename", spot, directory=directory, other=source)

    def leave(
        self,
        caller: Caller,
        operation: str,
        spot: Spot,
        source: Spot | Held | None = None,
        onto: Spot | None = None,
        match: Match | None = None,
    ) -> None:
        """The kernel goes on with a call where the warden makes no names. Where nobody may, that is asked
        about, or noted. `onto`: where something is moved from there, or to there."""
        place, path = spot.place, spot.path
        noted = not place.free and (operation in CHANGING or spot.status() is None)

        def go_on(denial: Denial) -> None:
            if noted:
                self.record(caller, operation, path, OUTSIDE, denial)
            caller.resume()

        closed = not place.free and not place.made_by_warden
        if closed and self.asking and self.asking.hold(caller, operation, onto or spot, go_on, match, source):
            return
        go_on(NOT_ASKED)

    def leave_protected(self, caller: Caller, operation: str, spot: Spot, match: Match) -> None:
        """The kernel goes on with a change of something that a mount of its own protects."""
        path = spot.path

        def go_on(denial: Denial) -> None:
            self.record(caller, operation, path, match.rule, denial)
            caller.resume()

        if self.asking and self.asking.hold(caller, operation, spot, go_on, match):
            return
        go_on(NOT_ASKED)

    def refuse(
        self,
        caller: Caller,
        operation: str,
        spot: Spot | str,
        match: Match,
        source: Spot | Held | None = None,
        onto: Spot | None = None,
    ) -> None:
        """A protected name is in the way. `onto` is where it would be moved or linked."""
        target = onto or (spot if isinstance(spot, Spot) else None)
        if operation in ONLY_NEW and target and target.status() is not None:
            # As the kernel says of it wherever it is: nothing was to be had, and `mkdir -p` goes on.
            caller.refuse(errno.EEXIST)
            return
        path = spot if isinstance(spot, str) else spot.path
        error = HELD if operation == "rename" and isinstance(spot, Spot) and spot.status() else PROTECTED

        def refuse(denial: Denial) -> None:
            self.record(caller, operation, path, match.rule, denial)
            caller.refuse(error)

        origin = spot if onto and isinstance(spot, Spot) else source
        if self.asking and target and self.asking.hold(caller, operation, target, refuse, match, origin):
            return
        refuse(NOT_ASKED)

    def record(
        self, caller: Caller, operation: str, path: str, rule: NameRule, denial: Denial = NOT_ASKED
    ) -> None:
        """`denial` is what came of asking a person, if one was asked."""
        tag, program = caller.who()
        told = rule._replace(why=f"{rule.why}; {denial.text}") if denial.text else rule
        self.records.add(tag, operation, path, told, program, caller.pid, denial)


def _makes_file(operation: str, source: Spot | Held | None) -> bool:
    """Whether a plain file gets the name, for sure."""
    status: os.stat_result | None = None
    if isinstance(source, Spot):
        status = source.status() if operation == "rename" else None
    elif source and operation == "link":
        status = os.fstat(source[1])
    return operation == "open" or (status is not None and stat.S_ISREG(status.st_mode))


def _why_missing(*spots: Spot) -> int:
    """The errno of a move whose source is not found: a directory of either end may be closed to us."""
    for spot in spots:
        try:
            os.stat(spot.name.rstrip(b"/"), dir_fd=spot.directory, follow_symlinks=False)
        except PermissionError:
            return errno.EACCES
        except OSError:
            continue
    return errno.ENOENT


def completes(spot: Spot) -> Matches:
    """The rule against a name that would make its directory a repository, if this is one."""
    if spot.key not in git_repositories.COMPLETED_BY or git_repositories.is_git_by_name(spot.place.path):
        return ()  # which is so of nearly all
    found = git_repositories.completes(spot.key, lambda name: may_exist(spot.directory, name))
    # A checkout replaces it, which makes no repository of what was none. In another spelling, where that is
    # the same file, a walk would not find it any more.
    is_replaced = spot.name == b"HEAD" and spot.status() is not None
    return (Match(COMPLETING),) if found and not is_replaced else ()


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
