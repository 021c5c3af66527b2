"""Whether a name that a caller wants made may be made: the rules' word, and what may be said against it."""

import errno
import stat
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from pinfold.model.names import Match, NameMatcher
from pinfold.sandbox.linux.bare import completes
from pinfold.sandbox.linux.caller import Caller
from pinfold.sandbox.linux.carried import carried
from pinfold.sandbox.linux.records import Records
from pinfold.sandbox.linux.spots import Spot

PROTECTED, HELD = errno.EROFS, errno.EBUSY
"""What a protected name that exists answers too, since it is mounted read-only: to a write, to a rename."""
OUTSIDE = "it lies outside of what may be written"


class Wish(NamedTuple):
    """A protected name is wanted, or would be given away."""

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


Exemption = Callable[[Caller, Wish], Verdict | None]
"""What may still be said for a protected name that is wanted; None if it is no matter of this one."""


class Judge:
    def __init__(self, records: Records, matcher: NameMatcher) -> None:
        self.records = records
        self.matcher = matcher
        self.exemptions: list[Exemption] = []

    def judge(
        self, caller: Caller, operation: str, spot: Spot, directory: bool = False, other: Spot | None = None
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
        wish = Wish(operation, spot, matches[0], other)
        for exemption in self.exemptions:
            verdict = exemption(caller, wish)
            if verdict is not None:
                break
        else:
            verdict = Verdict.REFUSED
        if verdict is Verdict.REFUSED:
            self.refuse(caller, operation, spot, matches[0])
        return verdict is not Verdict.GO_ON

    def judge_move(self, caller: Caller, source: Spot, spot: Spot) -> bool:
        """Whether something may leave the one name for the other; True if the caller has its answer."""
        status = source.status()
        if status is None:
            caller.refuse(errno.ENOENT)
            return True
        directory = stat.S_ISDIR(status.st_mode)
        lost = next((match for match in source.matches() if not match.rest), None)
        if lost is None and directory:
            lost = carried(self.matcher, source, source)
        if lost:
            self.refuse(caller, "rename", source, lost)
            return True
        if directory and (gained := carried(self.matcher, source, spot)):
            self.refuse(caller, "rename", spot, gained)
            return True
        return self.judge(caller, "rename", spot, directory=directory, other=source)

    def is_ours(self, caller: Caller, operation: str, spot: Spot) -> bool:
        """Whether the warden makes names here. If nobody may, that is noted."""
        place = spot.place
        if place.made_by_warden:
            return True
        if not place.free and (operation == "open" or spot.status() is None):
            self.record(caller, operation, spot.path, "", OUTSIDE, True)
        return False

    def refuse(self, caller: Caller, operation: str, spot: Spot | str, match: Match) -> None:
        path = spot if isinstance(spot, str) else spot.path
        self.record(caller, operation, path, match.rule.name, match.rule.why, match.rule.grantable)
        exists = operation == "rename" and isinstance(spot, Spot) and spot.status()
        caller.refuse(HELD if exists else PROTECTED)

    def record(self, caller: Caller, operation: str, path: str, rule: str, why: str, grantable: bool) -> None:
        self.records.add(caller.tag(), operation, path, rule, why, caller.program(), caller.pid, grantable)


def _makes_file(operation: str, source: Spot | None) -> bool:
    """Whether a plain file gets the name, for sure."""
    status = source.status() if source and operation == "rename" else None
    return operation == "open" or (status is not None and stat.S_ISREG(status.st_mode))
