"""Approvers in turn: whatever goes wrong is a no."""

import threading
from collections.abc import Callable

import pytest

from pinfold.approval import settle
from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.permission import Answer, Capability, PermissionNeeded, SettlementOutcome
from pinfold.model.policy import SandboxPolicy
from tests.patience import PATIENCE

QUESTION = PermissionNeeded(
    request_id="1",
    session="s",
    capability=Capability.RUN,
    command="touch x",
    cwd="/",
    decision=Decision(Verdict.ASK, (Reason(StepCode.OTHERWISE, "why", Verdict.ASK),), True, SandboxPolicy()),
)


def says(answer: object) -> Callable[[PermissionNeeded], object]:
    def approver(_: PermissionNeeded) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return approver


@pytest.mark.parametrize(
    "answer", [Answer.NO, "yes", True, 1, b"once", object(), RuntimeError("x"), KeyboardInterrupt()]
)
def test_anything_but_a_yes_that_was_offered_is_a_no(answer: object) -> None:
    assert settle(QUESTION, [says(answer), says(Answer.ONCE)]).answer is Answer.NO  # type: ignore[list-item]


def test_the_first_who_knows_answers() -> None:
    settled = settle(QUESTION, [says(None), says("once"), says(Answer.NO)])  # type: ignore[list-item]
    assert settled.answer is Answer.ONCE and settled.by == "approver"


def test_the_end_of_the_chain_says_no() -> None:
    assert settle(QUESTION, []).answer is Answer.NO
    settled = settle(QUESTION, [says(None)])  # type: ignore[list-item]
    assert settled.answer is Answer.NO and settled.outcome is SettlementOutcome.NOBODY


def test_a_question_that_nobody_waits_for_is_withdrawn() -> None:
    class Slow:
        name = "slow"

        def __init__(self) -> None:
            self.gone = threading.Event()

        def __call__(self, question: PermissionNeeded) -> Answer:
            self.gone.wait(PATIENCE)
            return Answer.ONCE

        def withdraw(self, _: PermissionNeeded) -> None:
            self.gone.set()

    slow = Slow()
    settled = settle(QUESTION, [slow], is_withdrawn=lambda: True)
    assert settled.outcome is SettlementOutcome.WITHDRAWN and slow.gone.is_set()


def test_an_approver_that_fails_to_withdraw_said_no() -> None:
    class Broken:
        name = "broken"

        def __call__(self, question: PermissionNeeded) -> Answer:
            over.wait(PATIENCE)
            return Answer.ONCE

        def withdraw(self) -> None:
            """Called with a question, this raises."""

    over = threading.Event()
    assert settle(QUESTION, [Broken()], is_withdrawn=lambda: True).answer is Answer.NO
    over.set()


def test_who_is_late_said_no() -> None:
    def late(_: PermissionNeeded) -> Answer:
        over.wait(PATIENCE)
        return Answer.ONCE

    over = threading.Event()
    settled = settle(QUESTION, [late], patience=0.05)
    assert settled.answer is Answer.NO and settled.outcome is SettlementOutcome.UNANSWERED
    over.set()
