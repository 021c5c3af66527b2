"""The broker: where every question of a session is put, and where answers are remembered.

INVARIANT: a person is not asked twice for the same thing. Within one run of a command any answer is final,
"no" included. An answer for the session, or for always, holds until it expires, is revoked, or loses what it
depends on. A question that is being asked already is not asked again: both get its answer.

A yes for one run ends with it. What the run has left behind is asked about for each thing that it wants; the
run's "no" still holds for it.

`ask` waits for the answer. A command's question about a call that waits is `put`, which returns at once:

- Like questions of a command are one, and its answer goes to all that wait for it.
- A command has `MOST_OPEN` questions open at a time; the others wait their turn. It is denied what it asks
  beyond `MOST_ASKED` questions, and what would be more than its share of `MOST_WAITING`.
- A question that nothing waits for any more is withdrawn.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from time import time
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from pinfold.approval.chain import GLANCE, WITHDRAWN, Approver, settle
from pinfold.approval.memory import Remembered, Subject, subject_of
from pinfold.approval.store import Store
from pinfold.model.decision import Reason, StepCode, Verdict
from pinfold.model.digest import digest
from pinfold.model.errors import PinfoldError
from pinfold.model.fair_share import has_room
from pinfold.model.permission import (
    ASKED_ENOUGH,
    LASTING,
    MOST_ASKED,
    MOST_OPEN,
    Answer,
    Capability,
    PermissionNeeded,
    Settlement,
    SettlementOutcome,
)
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.threads import Workers

MOST_WAITING = 256
"""Questions about calls that wait, of all commands together, each with a thread while it is open."""
MOST_COMMANDS = 1024
"""Of how many commands it is known what they have asked."""
ENOUGH = Settlement(Answer.NO, ASKED_ENOUGH, SettlementOutcome.ASKED_ENOUGH)
TOO_MANY = Settlement(Answer.NO, "too many questions are waiting already", SettlementOutcome.NOBODY)
MOST_FINAL = 10_000
"""Answers kept for runs: of those before it, the runs are long over."""

LEFT = Reason(StepCode.LEFT, "the command has ended: this is something it left running", Verdict.ASK)


A = TypeVar("A")


class CallQuestion(Protocol[A]):
    """A question about a call that waits, and what its answers are: of the file system, or of the network."""

    def known(self) -> A | None:
        """The answer, if there is no need to ask any more: called if it had to wait its turn."""

    def ask(self, is_withdrawn: Callable[[], bool]) -> tuple[A | None, bool]:
        """Asks, for as long as a person takes: the answer, and whether a person could be asked. The answer is
        None if the question was withdrawn."""

    def denied(self, settlement: Settlement) -> A:
        """The answer if no person is to be asked."""

    def failed(self, error: Exception) -> A:
        """The answer if it could not be asked."""

    def holds(self, answer: A) -> bool:
        """Whether the answer also holds for a like call that comes now."""


class _SharedQuestion(Generic[A]):
    """A question, and every call that waits for its answer."""

    def __init__(self, key: Hashable, question: CallQuestion[A]) -> None:
        self.key, self.question = key, question
        self.waiting: dict[object, Callable[[A], None]] = {}
        self.answer: A | None = None


class _AskingCommand:
    """What a command has asked."""

    def __init__(self) -> None:
        self.questions: dict[Hashable, _SharedQuestion[Any]] = {}
        """By what they are about: those that are open or wait their turn, and those that have an answer."""
        self.asked = self.open = 0
        self.queue: deque[_SharedQuestion[Any]] = deque()


class CallQuestions:
    """Questions about calls that wait: joined, bounded and withdrawn. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Of all below; never held while asking or answering."""
        self._askers: OrderedDict[Hashable, _AskingCommand] = OrderedDict()
        self._waiting: list[Hashable] = []
        """The command of each question that is open or waits its turn."""
        self._workers = Workers("asking", MOST_WAITING)

    def put(
        self, command: Hashable, key: Hashable, question: CallQuestion[A], answered: Callable[[A], None]
    ) -> Callable[[], None]:
        """Asks, unless a like question of the command is open or has an answer. `answered` gets the answer,
        on any thread. Returns what withdraws the call. Raises RuntimeError if there is no thread to ask."""
        me = object()
        with self._lock:
            asker = self._asker(command)
            shared = asker.questions.get(key)
            answer = shared.answer if shared else None
            if shared and answer is not None and not shared.question.holds(answer):
                shared = answer = None
            if answer is None and shared is None:
                if not has_room(self._waiting, command, MOST_WAITING):
                    answer = question.denied(TOO_MANY)
                else:
                    shared = asker.questions[key] = _SharedQuestion(key, question)
                    self._waiting.append(command)
                    self._start(command, asker, shared, is_late=False)
            if answer is None and shared is not None:
                shared.waiting[me] = answered
        if answer is not None:
            answered(answer)
            return lambda: None
        return lambda: self._withdraw(shared, me)

    def close(self) -> None:
        self._workers.close()

    def _withdraw(self, shared: "_SharedQuestion[Any] | None", me: object) -> None:
        with self._lock:
            if shared is not None:
                shared.waiting.pop(me, None)

    def _asker(self, command: Hashable) -> _AskingCommand:
        """Preconditions: the lock is held."""
        if command not in self._askers:
            done = (other for other, each in self._askers.items() if not each.open)
            if len(self._askers) >= MOST_COMMANDS and (first := next(done, None)) is not None:
                del self._askers[first]
            self._askers[command] = _AskingCommand()
        return self._askers[command]

    def _start(
        self, command: Hashable, asker: _AskingCommand, shared: _SharedQuestion[Any], *, is_late: bool
    ) -> None:
        """Preconditions: the lock is held."""
        if asker.open >= MOST_OPEN:
            asker.queue.append(shared)
            return
        try:
            self._workers.give(lambda: self._ask(command, asker, shared, is_late))
        except RuntimeError:
            self._drop(command, asker, shared)
            raise
        asker.open += 1

    def _drop(self, command: Hashable, asker: _AskingCommand, shared: _SharedQuestion[Any]) -> None:
        """Preconditions: the lock is held."""
        self._waiting.remove(command)
        if asker.questions.get(shared.key) is shared:
            del asker.questions[shared.key]

    def _ask(
        self, command: Hashable, asker: _AskingCommand, shared: _SharedQuestion[A], is_late: bool
    ) -> None:
        answer: A | None = None
        while True:
            try:
                if self._is_waited_for(shared):
                    answer = shared.question.known() if is_late else None
                    answer = self._answer(asker, shared) if answer is None else answer
            except Exception as error:  # noqa: BLE001  (whatever went wrong, it is a no)
                answer = shared.question.failed(error)
            lasts = answer is not None and self._lasts(shared.question, answer)
            with self._lock:
                waiting = list(shared.waiting.values())
                if answer is None and waiting:
                    continue  # another call has come since
                shared.waiting.clear()
                if lasts:
                    shared.answer = answer
                    self._waiting.remove(command)
                else:
                    self._drop(command, asker, shared)
                asker.open -= 1
                if asker.queue:
                    self._start(command, asker, asker.queue.popleft(), is_late=True)
                break
        for answered in waiting:
            if answer is not None:
                answered(answer)

    def _answer(self, asker: _AskingCommand, shared: _SharedQuestion[A]) -> A | None:
        question = shared.question
        with self._lock:
            if asker.asked >= MOST_ASKED:
                return question.denied(ENOUGH)
            asker.asked += 1
        answer, has_asked = question.ask(lambda: not self._is_waited_for(shared))
        if not has_asked:
            with self._lock:
                asker.asked -= 1
        return answer

    @staticmethod
    def _lasts(question: CallQuestion[A], answer: A) -> bool:
        try:
            return question.holds(answer)
        except Exception:  # noqa: BLE001  (it is asked for anew, and those that wait get their answer)
            return False

    def _is_waited_for(self, shared: _SharedQuestion[Any]) -> bool:
        with self._lock:
            return bool(shared.waiting)


class AnswerBasis(Protocol):
    """What answers depend on, as the session knows it."""

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
    """No session, no settings: answers depend on the question alone."""

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
        footing: AnswerBasis | None = None,
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
        self.calls = CallQuestions()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: what could not be remembered, or written down."""
        stored = self._store.trouble if self._store else ""
        return tuple(dict.fromkeys((*((stored,) if stored else ()), *self._troubles)))

    @property
    def writes_rules(self) -> bool:
        return bool(self._footing.file)

    def stands_on(self) -> str:
        """What answers depend on now: one that was given under another fingerprint holds no more."""
        return self._footing.fingerprint()

    def is_over(self, run: str) -> bool:
        """Whether a run has ended, and with it what was granted for it alone."""
        return bool(run) and not self._footing.is_under_way(run)

    def ask(self, question: PermissionNeeded, is_withdrawn: Callable[[], bool] = lambda: False) -> Settlement:
        """The answer that holds; a person is asked if there is none yet, for as long as it is waited for."""
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
        """The answer that holds, if there is one, without asking."""
        subject = self._subject(question)
        with self._lock:
            return self._known(question, subject)

    def recalls(self, capability: Capability, session: str) -> bool:
        """Whether any remembered answer about this capability may hold in the session."""
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
