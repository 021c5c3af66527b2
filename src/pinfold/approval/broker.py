"""The desk: where every question of a session is put, whoever has it, and where answers are remembered.

INVARIANT: nobody is asked twice for the same thing. Within one run of a command any answer is final, "no"
included; an answer for the session, or for always, holds until it expires, is revoked, or what it stood on
changes. Whoever asks what is being asked already waits for that answer.

A yes for one run ends with it. What the run has left behind is asked about for each thing that it wants; of
the run's "no" it hears as before.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import time
from typing import Protocol

from msgspec.structs import replace

from pinfold.approval.chain import GLANCE, WITHDRAWN, Approver, settle
from pinfold.approval.memory import Remembered, Subject, subject_of
from pinfold.approval.store import Store
from pinfold.model.decision import Reason, StepCode, Verdict
from pinfold.model.digest import digest
from pinfold.model.errors import PinfoldError
from pinfold.model.permission import (
    LASTING,
    Answer,
    Capability,
    PermissionNeeded,
    Settlement,
    SettlementOutcome,
)
from pinfold.model.policy import SandboxPolicy

MOST_FINAL = 10_000
"""Answers kept for runs: of those before it, the runs are long over."""

LEFT = Reason(StepCode.LEFT, "the command has ended: this is something it left running", Verdict.ASK)


class Footing(Protocol):
    """What answers stand on, as the session knows it."""

    def fingerprint(self) -> str:
        """Of the settings in force, and the administrator's cap."""

    def policy_fingerprint(self, policy: SandboxPolicy) -> str: ...

    def roots(self) -> tuple[str, ...]: ...

    def lasts(self) -> float | None:
        """Seconds that an answer is kept; None is for good."""

    def is_under_way(self, run: str) -> bool:
        """Whether a run has not ended yet."""

    file: str
    """The user's own settings, which rules are written to; empty where there is no such file."""

    def write_rules(self, key: str, rules: tuple[str, ...]) -> None:
        """Adds them to the user's settings; raises a `PinfoldError` where that cannot be done."""


class _Bare:
    """No session, no settings: answers stand on the question alone."""

    file = ""

    def fingerprint(self) -> str:
        return ""

    def policy_fingerprint(self, policy: SandboxPolicy) -> str:
        return digest(policy)

    def roots(self) -> tuple[str, ...]:
        return ()

    def lasts(self) -> float | None:
        return None

    def is_under_way(self, run: str) -> bool:  # noqa: ARG002
        return True

    def write_rules(self, key: str, rules: tuple[str, ...]) -> None:
        raise PinfoldError(f"there is no settings file, so {rules} cannot be added to `{key}`")


class Desk:
    """May be used from any thread. Without a store, nothing is remembered beyond its own life."""

    def __init__(
        self,
        approvers: Sequence[Approver],
        footing: Footing | None = None,
        store: Store | None = None,
        one_command: bool = False,
    ) -> None:
        self.approvers = tuple(approvers)
        self._footing = footing or _Bare()
        self._store = store
        self._one_command = one_command
        """Whether the session is over with its first command, and the second run that may follow it."""
        self._lock = threading.Lock()
        self._final: OrderedDict[tuple[str, Subject], Settlement] = OrderedDict()
        """What was said in one run, and for that run."""
        self._kept: list[Remembered] = []
        """Answers that are not stored, or could not be."""
        self._open: dict[Subject, threading.Event] = {}
        self._troubles: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: what could not be remembered, or written down."""
        stored = self._store.trouble if self._store else ""
        return tuple(dict.fromkeys((*((stored,) if stored else ()), *self._troubles)))

    @property
    def writes_rules(self) -> bool:
        return bool(self._footing.file)

    def stands_on(self) -> str:
        """What answers stand on now: one that was given on something else holds no more."""
        return self._footing.fingerprint()

    def is_over(self, run: str) -> bool:
        """Whether a run has ended, and with it what was granted for it alone."""
        return bool(run) and not self._footing.is_under_way(run)

    def ask(self, question: PermissionNeeded, is_withdrawn: Callable[[], bool] = lambda: False) -> Settlement:
        """The answer that holds; a person is asked if there is none yet, and while anybody waits for it."""
        subject = self._subject(question)
        while True:
            with self._lock:
                if known := self._known(question, subject):
                    return known
                asked = self._open.get(subject)
                if asked is None:
                    self._open[subject] = threading.Event()
                    break
            while not asked.wait(GLANCE):
                if is_withdrawn():
                    return WITHDRAWN
        try:
            told = _of_what_is_left(question) if self.is_over(question.run) else question
            put = replace(told, ends_session=True) if self._one_command else told
            settled = settle(put, self.approvers, is_withdrawn=is_withdrawn)
            settlement = self._held(question, settled)
            if settled.outcome is not SettlementOutcome.WITHDRAWN:
                with self._lock:
                    self._remember(question, subject, settlement)
            return settlement
        finally:
            with self._lock:
                self._open.pop(subject).set()

    def known(self, question: PermissionNeeded) -> Settlement | None:
        """The answer that holds, if there is one; nobody is asked."""
        subject = self._subject(question)
        with self._lock:
            return self._known(question, subject)

    def recalls(self, capability: Capability, session: str) -> bool:
        """Whether any answer about this is remembered that may hold in the session, whatever it covers."""
        now = time()
        return any(
            each.subject.capability is capability
            and each.is_alive(now)
            and (each.answer is not Answer.SESSION or each.session == session)
            for each in (self._store.answers() if self._store else ())
        )

    def _subject(self, question: PermissionNeeded) -> Subject:
        footing = self._footing
        policy = footing.policy_fingerprint(question.decision.policy)
        return subject_of(question, policy, footing.fingerprint(), footing.roots(), os.getuid())

    def _known(self, question: PermissionNeeded, subject: Subject) -> Settlement | None:
        final = self._final.get((self._run(question), subject))
        if final is not None and (final.answer is Answer.NO or not self.is_over(question.run)):
            return final
        now = time()
        stored = self._store.answers() if self._store else ()
        for each in (*self._kept, *stored):
            if (
                each.answer in question.choices
                and each.is_alive(now)
                and each.answers(question.session, subject)
            ):
                granted = SettlementOutcome.GRANTED
                return Settlement(
                    each.answer, f"{each.by}, earlier", granted, reach=each.reach, remembered=each.id
                )
        return None

    def _held(self, question: PermissionNeeded, settlement: Settlement) -> Settlement:
        """What comes of an answer: never more than was said."""
        if settlement.answer in LASTING and question.capability is Capability.BYPASS:
            return replace(settlement, answer=Answer.ONCE)
        if settlement.answer is not Answer.RULE:
            return settlement
        rules = settlement.rules or question.rules
        try:
            self._footing.write_rules(question.rule_key, rules)
        except PinfoldError as error:
            self._note(f"the rule was not written, so the answer held once: {error}")
            return replace(settlement, answer=Answer.ONCE)
        return replace(settlement, rules=rules)

    def _remember(self, question: PermissionNeeded, subject: Subject, settlement: Settlement) -> None:
        if settlement.answer not in LASTING:
            self._final[self._run(question), subject] = settlement
            if len(self._final) > MOST_FINAL:
                self._final.popitem(last=False)
            return
        now, lasts = time(), self._footing.lasts()
        answer = Remembered(
            id=os.urandom(4).hex(),
            answer=settlement.answer,
            session=question.session,
            subject=subject,
            reach=settlement.reach,
            by=settlement.by,
            made=now,
            expires=None if lasts is None else now + lasts,
        )
        is_over_soon = self._one_command and settlement.answer is Answer.SESSION
        if self._store is None or is_over_soon:
            self._kept.append(answer)
        elif not self._store.add(answer):
            self._note(f"an answer is kept only as long as this session lasts: {self._store.trouble}")
            self._kept.append(answer)

    def _note(self, trouble: str) -> None:
        self._troubles[trouble] = None

    def _run(self, question: PermissionNeeded) -> str:
        """Within which an answer is final."""
        return question.session if self._one_command else question.run or question.request_id


def _of_what_is_left(question: PermissionNeeded) -> PermissionNeeded:
    """As it is shown: what answers are remembered for is the same as while the run lasted."""
    decision = question.decision
    return replace(question, decision=replace(decision, reasons=(*decision.reasons, LEFT)))
