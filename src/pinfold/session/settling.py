"""How a decision to ask becomes one that counts: the question, its answer, and what holds by then.

INVARIANT: a yes is for what was asked. Whoever answers takes their time, so everything is judged once more
after them: what is denied by then is denied, and what would be asked otherwise by then was not granted.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pinfold.model.decision import Decision, StepCode, Verdict
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.request import RunCommand
from pinfold.session.choices import choices_of
from pinfold.session.judge import Judge
from pinfold.session.request import CHANGED, judged_line, line_of

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk
    from pinfold.model.violation import Violation


def settled(
    decision: Decision, ask: Callable[[Decision], Settlement], again: Callable[[], Decision]
) -> tuple[Decision, Settlement | None]:
    """The decision that counts, and the answer if there was a question. `again` judges anew."""
    if decision.verdict is not Verdict.ASK:
        return decision, None
    settlement = ask(decision)
    now = again()
    if now.verdict is Verdict.DENY:
        return now, settlement
    if settlement.answer is Answer.NO:
        return decision, settlement
    if (now.widening, now.sandboxed) != (decision.widening, decision.sandboxed):
        return decision, CHANGED
    return now, settlement


class Settlements:
    """What a session asks about its commands. May be used from any thread."""

    def __init__(
        self,
        session: str,
        judge: Callable[[], Judge],
        desk: "Callable[[], Desk]",
        decided: Callable[[RunCommand], Decision],
        refused: "Callable[[str], tuple[Violation, ...]]",
        is_over: Callable[[], bool],
    ) -> None:
        """`refused` tells what a line was refused when it last ran in the fence. `is_over` tells whether the
        session has ended, so that nobody waits for its questions."""
        self._session, self._judge, self._desk = session, judge, desk
        self._decided, self._refused, self._is_over = decided, refused, is_over

    def settle(
        self, command: RunCommand, decision: Decision, is_withdrawn: Callable[[], bool]
    ) -> tuple[Decision, Settlement | None]:
        """The decision that counts once a person has answered, and the answer."""

        def asked(about: Decision) -> Settlement:
            return self.put(self.question(command, about), is_withdrawn)

        if _capability(decision) is Capability.BYPASS and (narrower := self._narrower(command)):
            # What would have been enough is offered before no fence at all.
            settlement = asked(narrower)
            if settlement.answer is not Answer.NO:
                now = self._narrower(command)
                same = now is not None and now.widening == narrower.widening
                return narrower, settlement if same else CHANGED
        decision, answer = settled(decision, asked, lambda: self._decided(command))
        # What is denied is nobody's answer.
        return decision, None if decision.verdict is Verdict.DENY else answer

    def _narrower(self, command: RunCommand) -> Decision | None:
        """The command inside the fence, with what it was refused when it last ran there, if that will do."""
        refused = self._refused(line_of(command))
        if not refused:
            return None
        from pinfold.policy.explain_violation import sufficient_policy

        policy = sufficient_policy(refused, os.path.exists)
        if policy is None:
            return None
        return self.widened(replace(command, disable_sandbox=False, policy=policy))

    def widened(self, command: RunCommand) -> Decision | None:
        """The decision about a command that asks for more, if it is to ask a person for that."""
        decision = self._decided(command)
        asks = decision.verdict is Verdict.ASK and decision.sandboxed and decision.widening
        return decision if asks and _capability(decision) is Capability.WIDEN else None

    def put(self, question: PermissionNeeded, is_withdrawn: Callable[[], bool]) -> Settlement:
        return self._desk().ask(question, lambda: self._is_over() or is_withdrawn())

    def question(self, command: RunCommand, decision: Decision) -> PermissionNeeded:
        judge, capability = self._judge(), _capability(decision)
        rules = decision.candidates if self._desk().writes_rules else ()
        if capability is not Capability.RUN or not (rules and judge.is_lifted_by(command, rules)):
            rules = ()
        choices = choices_of(decision, capability, judge.law.last_settings)
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self._session,
            capability=capability,
            command=judged_line(command),
            cwd=judge.start_of(command),
            decision=decision,
            description=command.description,
            choices=(*choices, Answer.RULE) if rules else choices,
            rules=rules,
        )


def _capability(decision: Decision) -> Capability:
    steps = {reason.step for reason in decision.reasons}
    if StepCode.BYPASS in steps:
        return Capability.BYPASS
    return Capability.WIDEN if decision.widening else Capability.RUN
