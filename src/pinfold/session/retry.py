"""A command that failed since it was refused what could not wait for a person: what it needed, and the same
once more with that.

Calls that the warden sees wait for their answer, and nothing is run again (`elevation`). What is left is what
it only notes, what nobody does on a caller's behalf, and runs that nobody could be asked about.

INVARIANT: a command is run again once at most, inside of the fence, with just what was granted added to its
policy. What was put to somebody while it waited (`Violation.answered`) is not asked for in this way, and
whatever is not enough is not asked for at all.
"""

import os
import stat
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.errors import PolicyError
from pinfold.model.permission import Answer, PermissionNeeded, Settlement, SettlementOutcome
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.violation import Violation
from pinfold.policy.explain_violation import sufficient_policy
from pinfold.session.execution import Execution, Need
from pinfold.session.judge import Judge
from pinfold.session.parts import Parts
from pinfold.session.request import CHANGED, Given
from pinfold.session.settling import Settlements

MOST = 64
"""Runs that are kept until somebody grants what they needed."""


class Retries:
    """A session's. May be used from any thread."""

    def __init__(
        self,
        questions: Settlements,
        parts: Parts,
        judge: Callable[[], Judge],
        started: Callable[[RunCommand, Decision, Settlement | None, Given, bool], Execution],
    ) -> None:
        self._questions, self._parts, self._judge, self._started = questions, parts, judge, started
        self._lock = allocate_lock()
        self._kept: OrderedDict[str, tuple[RunCommand, PermissionNeeded, Given]] = OrderedDict()
        """By the questions that they left."""

    def need(
        self, command: RunCommand, policy: SandboxPolicy, violations: Sequence[Violation], given: Given
    ) -> Need | None:
        """What a run of this policy that failed would have needed, where that can be granted afterwards;
        and, where there is anybody to ask, how it goes on."""
        anybody, elevation = self._parts.has_anybody(), self._parts.elevation
        if elevation is None or (anybody and not self._judge().law.last_settings.filesystem.ask):
            return None
        # A policy of the call's own may be narrower than the user's: it is not dropped for another.
        more = needed(violations, anybody) if command.policy is None else None
        if more is None or not elevation.may_follow(violations, more, policy):
            return None
        if not is_repeatable(given.source):
            return None
        wider = replace(command, disable_sandbox=False, policy=more)
        decision = self._questions.widened(wider)
        if decision is None:
            return None
        decision = told(decision, violations)
        question = self._questions.question(wider, decision)
        if anybody:
            put = self._questions.put
            return Need(question, lambda gone: self._again(wider, question, put(question, gone), given))
        with self._lock:
            self._kept[question.request_id] = wider, question, given
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return Need(question, None)

    def run(self, question: PermissionNeeded, answer: Answer) -> Execution:
        """The second run of a command that nobody could be asked about: by the question as it was left, which
        is all that counts of the one that comes back."""
        with self._lock:
            found = self._kept.pop(question.request_id, None)
        if found is None:
            raise PolicyError("there is nothing to run again", help="run the command itself")
        command, left, given = found
        said = answer if answer in left.choices else Answer.NO
        is_no = said is Answer.NO
        outcome = SettlementOutcome.UNANSWERED if is_no else SettlementOutcome.GRANTED
        return self._again(command, left, Settlement(said, "who opened the session", outcome), given)

    def _again(
        self, command: RunCommand, question: PermissionNeeded, settlement: Settlement, given: Given
    ) -> Execution:
        """A person takes their time: nothing else was granted than what would be asked for now."""
        decision, now = question.decision, self._questions.widened(command)
        if settlement.answer is not Answer.NO:
            same = now is not None and now.widening == decision.widening
            if not same or self._questions.question(command, decision).cwd != question.cwd:
                settlement = CHANGED
        return self._started(command, decision, settlement, given, False)


def needed(violations: Sequence[Violation], anybody: bool) -> SandboxPolicy | None:
    """What a policy would have to add; None if that would not be enough, or is not to be asked for.

    Where there is `anybody` to ask, connections have been asked about while they waited.
    """
    answered = any(each.answered or (anybody and each.operation == "connect") for each in violations)
    return None if answered else sufficient_policy(violations, os.path.exists)


def told(decision: Decision, violations: Sequence[Violation]) -> Decision:
    """The same decision, with why it is asked."""
    more = f" and {len(violations) - 1} more" if len(violations) > 1 else ""
    first = " ".join((violations[0].operation, violations[0].path))
    said = f"it failed: it was refused `{first}`{more}, and would be run again with leave for that"
    reason = Reason(StepCode.AGAIN, said, Verdict.ASK)
    return replace(decision, reasons=(reason, *decision.reasons))


def is_repeatable(stdin: bytes | int | None) -> bool:
    """Whether a second run would read the same: of a pipe or a file, the first has taken its part."""
    if not isinstance(stdin, int):
        return True
    try:
        return stat.S_ISCHR(os.fstat(stdin).st_mode)
    except OSError:
        return False
