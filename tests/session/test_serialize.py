"""What whoever was refused is told to do next, the same for commands and for file tools."""

import pytest

from pinfold.approval.chain import NOBODY
from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.errors import FileRefused
from pinfold.model.permission import Answer, Settlement, SettlementOutcome
from pinfold.model.policy import SandboxPolicy
from pinfold.session.result import refusal_of
from pinfold.session.serialize import DENIED, SAID_NO, UNASKED, file_refusal_as_plain, refusal_as_plain


@pytest.mark.parametrize(
    ("verdict", "settlement", "next_"),
    [
        (Verdict.DENY, None, DENIED),
        (Verdict.ASK, Settlement(Answer.NO, "terminal said no", SettlementOutcome.SAID_NO), SAID_NO),
        (
            Verdict.ASK,
            NOBODY,
            UNASKED,
        ),
        (
            Verdict.ASK,
            Settlement(Answer.NO, "web gave no answer within 60 seconds", SettlementOutcome.UNANSWERED),
            UNASKED,
        ),
    ],
)
def test_a_refusal_says_what_to_do_next(verdict: Verdict, settlement: Settlement | None, next_: str) -> None:
    # The path is nobody's answer, whatever it is called.
    path = "/project/he said no"
    decision = Decision(
        verdict, (Reason(StepCode.OTHERWISE, f"`{path}` is asked about", verdict),), True, SandboxPolicy()
    )
    told = refusal_as_plain(decision, settlement)
    assert (told["next"], told["answer"]) == (next_, settlement)
    refused = FileRefused("step", path, refusal_of(decision, settlement), "", decision, settlement)
    assert file_refusal_as_plain(refused) == {**told, "path": path}
