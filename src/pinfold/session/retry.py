"""A command that failed because it was denied what could not wait for a person: what it needed, and a second
run with that.

Calls that the warden sees wait for their answer, and nothing is run again (`approval.write_questions`). This
is for the rest: what the warden only records, what it does not do for a caller, and runs without a person to
ask.

INVARIANT: a command is run again once at most, in the sandbox, with just what was granted added to its
policy. What a person was asked while it waited (`Violation.answered`) is not asked for again. A grant that
would not be enough is not asked for at all.
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
from pinfold.model.violation import Violation
from pinfold.policy.explain_violation import sufficient_policy
from pinfold.session.command_questions import CommandQuestions
from pinfold.session.execution import Execution, Need
from pinfold.session.open_parts import Resources
from pinfold.session.request import CHANGED, Given
from pinfold.session.result import Judged

MOST = 64
"""Runs that are kept until a caller grants what they needed."""


class Retries:
    """A session's. May be used from any thread."""

    def __init__(
        self,
        questions: CommandQuestions,
        resources: Resources,
        begin: Callable[[Judged, Given], Execution],
    ) -> None:
        """`begin` journals a command and starts it."""
        self._questions, self._resources, self._begin = questions, resources, begin
        self._lock = allocate_lock()
        self._kept: OrderedDict[str, tuple[Judged, PermissionNeeded, Given]] = OrderedDict()
        """By the questions that they left."""

    def need(
        self, judged: Judged, policy: SandboxPolicy, violations: Sequence[Violation], given: Given
    ) -> Need | None:
        """What a run of this policy that failed would have needed, where that can be granted afterwards;
        and, where there is a person to ask, how it goes on."""
        command, resources = judged.command, self._resources
        anybody, elevation = resources.has_anybody(), resources.elevation
        if elevation is None or (anybody and not judged.context.settings.filesystem.ask):
            return None
        # A policy of the call's own may be narrower than the user's: it is not dropped for another.
        more = needed(violations, anybody) if command.policy is None else None
        if more is None or not elevation.may_follow(violations, more, policy):
            return None
        if not is_repeatable(given.source):
            return None
        wider = self._questions.widened(replace(command, disable_sandbox=False, policy=more))
        if wider is None:
            return None
        again = replace(wider, decision=told(wider.decision, violations))
        question = self._questions.question(again)
        if anybody:
            put = self._questions.put
            return Need(question, lambda gone: self._again(again, question, put(question, gone), given))
        with self._lock:
            self._kept[question.request_id] = again, question, given
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return Need(question, None)

    def run(self, question: PermissionNeeded, answer: Answer) -> Execution:
        """The second run of a command for which there was no approver. It is judged by the question as it was
        left; of the question that comes back, only the id counts."""
        with self._lock:
            found = self._kept.pop(question.request_id, None)
        if found is None:
            raise PolicyError("there is nothing to run again", help="run the command itself")
        judged, left, given = found
        said = answer if answer in left.choices else Answer.NO
        is_no = said is Answer.NO
        outcome = SettlementOutcome.UNANSWERED if is_no else SettlementOutcome.GRANTED
        return self._again(
            judged, left, Settlement(said, "the program that opened the session", outcome), given
        )

    def _again(
        self, judged: Judged, question: PermissionNeeded, settlement: Settlement, given: Given
    ) -> Execution:
        """A person takes time to answer: what was granted must be what would be asked for now."""
        now = self._questions.widened(judged.command)
        if settlement.answer is not Answer.NO:
            same = now is not None and now.decision.widening == judged.decision.widening
            if now is None or not same or now.cwd != question.cwd:
                settlement = CHANGED
        again = replace(now or judged, decision=judged.decision, settlement=settlement)
        return self._begin(again, given)


def needed(violations: Sequence[Violation], anybody: bool) -> SandboxPolicy | None:
    """What a policy would have to add; None if that would not be enough, or is not to be asked for.

    Where there is `anybody` to ask, connections have been asked about while they waited.
    """
    answered = any(each.answered or (anybody and each.operation == "connect") for each in violations)
    return None if answered else sufficient_policy(violations, os.path.exists)


def told(decision: Decision, violations: Sequence[Violation]) -> Decision:
    """The decision with one more reason: why it is asked."""
    more = f" and {len(violations) - 1} more" if len(violations) > 1 else ""
    first = " ".join((violations[0].operation, violations[0].path))
    said = f"it failed: the sandbox denied `{first}`{more}; a yes allows that and runs it again"
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
