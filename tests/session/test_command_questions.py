"""What counts after somebody was asked: their answer, and what would be decided by then."""

import pytest

from pinfold.model.decision import Decision, Reason, StepCode, Verdict, Widening
from pinfold.model.permission import Answer, Settlement, SettlementOutcome
from pinfold.model.policy import SandboxPolicy
from pinfold.session.command_questions import settled
from pinfold.session.request import CHANGED

YES, NO = (
    Settlement(Answer.ONCE, "a test", SettlementOutcome.GRANTED),
    Settlement(Answer.NO, "a test said no", SettlementOutcome.SAID_NO),
)
HOME = Widening("additional_readwrite_paths", "/home")


def decision(verdict: Verdict, *, sandboxed: bool = True, widening: tuple[Widening, ...] = ()) -> Decision:
    reason = Reason(StepCode.OTHERWISE, "why", verdict)
    return Decision(verdict, (reason,), sandboxed, SandboxPolicy(), widening=widening)


ASK, ALLOW, DENY = map(decision, (Verdict.ASK, Verdict.ALLOW, Verdict.DENY))
UNFENCED = decision(Verdict.ASK, sandboxed=False)
WIDER = decision(Verdict.ASK, widening=(HOME,))


@pytest.mark.parametrize(
    ("answer", "now", "counts"),
    [
        (YES, ASK, (ASK, YES)),
        (YES, ALLOW, (ALLOW, YES)),
        (NO, ASK, (ASK, NO)),
        # A no stays one, whatever is allowed by then.
        (NO, ALLOW, (ASK, NO)),
        # What is denied by then is denied.
        (YES, DENY, (DENY, YES)),
        (NO, DENY, (DENY, NO)),
        # Something else was not approved.
        (YES, WIDER, (ASK, CHANGED)),
        (YES, UNFENCED, (ASK, CHANGED)),
    ],
)
def test_a_yes_is_for_what_was_asked(
    answer: Settlement, now: Decision, counts: tuple[Decision, Settlement]
) -> None:
    assert settled(ASK, lambda _: answer, lambda: now) == counts


@pytest.mark.parametrize("known", [ALLOW, DENY])
def test_nobody_is_asked_about_what_is_decided(known: Decision) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    assert settled(known, never, never) == (known, None)  # type: ignore[arg-type]
