"""The chain of approvers. INVARIANT: every failure in it is a no.

An approver answers, or says None: then the next one is asked. One that raises, that answers what was not
offered, or that is late ends the chain with no: to go on would let the next one overrule it.

An approver with a time of its own to keep (a person at a terminal, a page in a browser) runs on a thread
here, so that one that hangs cannot hold the session; its late answer goes nowhere. When the caller stops
waiting, the chain withdraws the question: it calls the approver's `withdraw`, if any, and the answer is no.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import Protocol

from pinfold.approval.question_limits import showable, unshowable
from pinfold.model.codes import AskedAt
from pinfold.model.permission import (
    LONGEST_QUESTION,
    Answer,
    PermissionNeeded,
    Reply,
    Settlement,
    SettlementOutcome,
)

PATIENCE = LONGEST_QUESTION + 10
"""Seconds that the chain waits for an approver."""
GLANCE = 0.2
"""Seconds between two checks whether the question was withdrawn."""
NOBODY = Settlement(
    Answer.NO, "no terminal, agent dialog or `pinfold web` page is open to ask", SettlementOutcome.NOBODY
)
WITHDRAWN = Settlement(Answer.NO, "the question was withdrawn", SettlementOutcome.WITHDRAWN)


class Approver(Protocol):
    """A person or a program that may answer: a function will do. Its `name`, if it has one, says in reports
    who answered."""

    def __call__(self, question: PermissionNeeded, /) -> Answer | Reply | None:
        """The answer; None if this one cannot say."""


def name_of(approver: Approver) -> str:
    """Its name in reports of who answered."""
    return str(getattr(approver, "name", getattr(approver, "__name__", type(approver).__name__)))


def is_there(approver: Approver) -> bool:
    """Whether it can be asked at all, by its own account: without a person a call need not wait."""
    tells = getattr(approver, "is_there", None)
    return tells is None or bool(tells())


def settle(
    question: PermissionNeeded,
    approvers: Sequence[Approver],
    patience: float = PATIENCE,
    is_withdrawn: Callable[[], bool] = lambda: False,
) -> Settlement:
    """The first answer of the chain. A question that no face can show whole is denied unasked."""
    if trouble := unshowable(question):
        return Settlement(Answer.NO, trouble, SettlementOutcome.UNSHOWABLE)
    question = showable(question)
    for approver in approvers:
        settlement = _ask(approver, question, patience, is_withdrawn)
        if settlement:
            return settlement
    return NOBODY


def _ask(
    approver: Approver, question: PermissionNeeded, patience: float, is_withdrawn: Callable[[], bool]
) -> Settlement | None:
    name, asked_at = name_of(approver), getattr(approver, "asked_at", AskedAt.ELSEWHERE)
    said: list[object] = []

    def refused(outcome: SettlementOutcome, how: str) -> Settlement:
        return Settlement(Answer.NO, f"{name} {how}", outcome, asked_at)

    def ask() -> None:
        try:
            said.append(approver(question))
        except BaseException as error:  # noqa: BLE001  (every failure is a no)
            said.append(error)

    thread = Thread(target=ask, name=f"pinfold-{name}", daemon=True)
    thread.start()
    deadline = monotonic() + patience
    while thread.is_alive() and (rest := deadline - monotonic()) > 0:
        thread.join(min(GLANCE, rest))
        if not said and is_withdrawn():
            withdraw(approver, question)
            return WITHDRAWN
    if not said:
        return refused(SettlementOutcome.UNANSWERED, f"gave no answer within {patience:g} seconds")
    answer = said[0]
    if answer is None:
        return None
    if isinstance(answer, BaseException):
        return refused(SettlementOutcome.INVALID, f"failed: {type(answer).__name__}: {answer}")
    reply = answer if isinstance(answer, Reply) else Reply(answer)  # type: ignore[arg-type]
    if type(reply.answer) is str and reply.answer in tuple(Answer):
        reply = Reply(Answer(reply.answer), reply.reach, reply.rules, reply.why)
    offered = isinstance(reply.answer, Answer) and reply.answer in question.choices
    if not offered or reply.reach not in question.reaches:
        return refused(SettlementOutcome.INVALID, f"answered what was not offered: {answer!r}")
    if reply.answer is Answer.NO:
        outcome = SettlementOutcome.UNANSWERED if reply.why else SettlementOutcome.SAID_NO
        return refused(outcome, reply.why or "said no")
    return Settlement(reply.answer, name, SettlementOutcome.GRANTED, asked_at, reply.reach, reply.rules)


def withdraw(approver: Approver, question: PermissionNeeded) -> None:
    told = getattr(approver, "withdraw", None)
    if callable(told):
        with suppress(Exception):  # the answer is no, even if the approver fails here
            told(question)
