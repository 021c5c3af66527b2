"""How a decision to ask becomes one that counts: the question, its answer, and what holds by then.

INVARIANT: a yes is for what was asked. A person takes time to answer, so the request is judged once more
after the answer. What is denied by then is denied. What would be asked otherwise by then was not granted.
"""

import os
from collections.abc import Callable

from msgspec.structs import replace

from pinfold.approval.question_limits import choices_of
from pinfold.model.decision import Decision, StepCode, Verdict
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.request import RunCommand
from pinfold.session.execution import Explanations
from pinfold.session.open_parts import Resources
from pinfold.session.request import CHANGED, judged_line, line_of
from pinfold.session.result import Judged


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


class CommandQuestions:
    """What a session asks about its commands. May be used from any thread."""

    def __init__(
        self, resources: Resources, judge: Callable[[RunCommand], Judged], refused: Explanations
    ) -> None:
        """`judge` decides by what is in force then."""
        self._resources, self._judge, self._refused = resources, judge, refused

    def settle(self, judged: Judged, is_withdrawn: Callable[[], bool]) -> Judged:
        """The decision that counts once a person has answered, with the answer and the context of then."""
        if _capability(judged.decision) is Capability.BYPASS and (narrower := self._narrower(judged.command)):
            # What would have been enough is offered before leaving the sandbox.
            settlement = self._ask(narrower, is_withdrawn)
            if settlement.answer is not Answer.NO:
                now = self._narrower(judged.command)
                same = now is not None and now.decision.widening == narrower.decision.widening
                return replace(now if now and same else narrower, settlement=settlement if same else CHANGED)
        now = judged

        def again() -> Decision:
            nonlocal now
            now = self._judge(judged.command)
            return now.decision

        decision, answer = settled(judged.decision, lambda _: self._ask(judged, is_withdrawn), again)
        # A denial is no person's answer.
        answer = None if decision.verdict is Verdict.DENY else answer
        return replace(now, decision=decision, settlement=answer)

    def _narrower(self, command: RunCommand) -> Judged | None:
        """The command in the sandbox, with what it was denied when it last ran there, if that is enough."""
        refused = self._refused.of(line_of(command))
        if not refused:
            return None
        from pinfold.policy.explain_violation import sufficient_policy

        policy = sufficient_policy(refused, os.path.exists)
        if policy is None:
            return None
        return self.widened(replace(command, disable_sandbox=False, policy=policy))

    def widened(self, command: RunCommand) -> Judged | None:
        """The decision about a command that asks for more, if it is to ask a person for that."""
        judged = self._judge(command)
        decision = judged.decision
        asks = decision.verdict is Verdict.ASK and decision.sandboxed and decision.widening
        return judged if asks and _capability(decision) is Capability.WIDEN else None

    def _ask(self, judged: Judged, is_withdrawn: Callable[[], bool]) -> Settlement:
        return self.put(self.question(judged), is_withdrawn)

    def put(self, question: PermissionNeeded, is_withdrawn: Callable[[], bool]) -> Settlement:
        resources = self._resources
        return resources.desk.ask(question, lambda: resources.is_closed or is_withdrawn())

    def question(self, judged: Judged) -> PermissionNeeded:
        resources, command, decision = self._resources, judged.command, judged.decision
        capability = _capability(decision)
        rules = decision.candidates if resources.desk.writes_rules else ()
        is_rule_enough = capability is Capability.RUN and rules
        if not (is_rule_enough and resources.judge.is_lifted_by(command, rules, judged.context)):
            rules = ()
        choices = choices_of(decision, capability, judged.context.settings)
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=resources.id,
            capability=capability,
            command=judged_line(command),
            cwd=judged.cwd,
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
