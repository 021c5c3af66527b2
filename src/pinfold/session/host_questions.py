"""Whether a command may reach a host, as the gate asks a session: by the rules, by an answer that is known
already, or by asking a person.

INVARIANT: pinfold's own page, where a person answers, is out of reach whatever the rules say. And a command
does not tire a person until they say yes: `MOST_OPEN` of its questions stand at a time, and beyond
`MOST_ASKED` hosts nobody is asked any more.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pinfold.approval.chain import GLANCE
from pinfold.model.decision import Decision, StepCode, Verdict
from pinfold.model.hosts import is_same
from pinfold.model.permission import (
    ASKED_ENOUGH,
    MOST_ASKED,
    MOST_OPEN,
    Answer,
    Capability,
    PermissionNeeded,
    Settlement,
    SettlementOutcome,
)
from pinfold.model.policy import SandboxPolicy
from pinfold.network.host_decision import HostDecision
from pinfold.policy.network_scope import LOOPBACK, PenReach, current_reach
from pinfold.sandbox.backend import StartRequest
from pinfold.session.choices import choices_of, host_rules
from pinfold.session.judge import Judge
from pinfold.state.web_page import page_at, page_file

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk

LISTED = (StepCode.NETWORK_ALLOW, StepCode.NETWORK_DENY)
GONE = HostDecision(Verdict.DENY, "the sandbox of the command has ended")
MOST_COMMANDS = 1024
"""Of how many commands it is known how much they asked."""


class _Command:
    """How much a command asks."""

    def __init__(self) -> None:
        self._turns = threading.Semaphore(MOST_OPEN)
        self.asked = 0
        """How many questions a person had, or has, to answer for it."""

    @contextmanager
    def turn(self, withdrawn: threading.Event) -> Iterator[bool]:
        """Waits until fewer of its questions stand; False if nobody waits for this one any more."""
        has_turn = False
        while not withdrawn.is_set() and not (has_turn := self._turns.acquire(timeout=GLANCE)):
            pass
        try:
            yield has_turn
        finally:
            if has_turn:
                self._turns.release()


class Hosts:
    """May be used from any thread."""

    def __init__(
        self,
        session: str,
        judge: Callable[[], Judge],
        desk: "Callable[[], Desk]",
        environ: Mapping[str, str],
        pens: Mapping[str, PenReach],
        commands: Mapping[str, StartRequest],
    ) -> None:
        """`pens` are those that there are now, `commands` what is known by its tag."""
        self._session, self._judge, self._desk, self._environ = session, judge, desk, environ
        self._pens, self._commands = pens, commands
        self._lock = threading.Lock()
        """Of the counts: nobody has it who waits for an answer."""
        self._asking: OrderedDict[str, _Command] = OrderedDict()
        """By their tags."""

    def decide(self, host: str, port: int | None, tag: str) -> HostDecision:
        if not tag:
            return self._of_any_pen(host, port)
        if page := self._page_at(host, port):
            return page
        judge = self._judge()
        if (policy := self._policy_of(tag)) is None:
            return GONE
        decision = judge.check_host(host, port, policy)
        ruling = _ruling(decision)
        if ruling.verdict is Verdict.ASK and port is not None:
            known = self._desk().known(self._question(host, port, tag, decision))
            return _answered(host, port, decision, ruling, known) if known else ruling
        # The page may be opened later, at a port that is let through now.
        files = (*judge.law.files, page_file(self._environ))
        return ruling._replace(files=files) if ruling.verdict is Verdict.ALLOW else ruling

    def ask(
        self, host: str, port: int, tag: str, ruling: HostDecision, withdrawn: threading.Event
    ) -> HostDecision:
        if page := self._page_at(host, port):
            return page
        command = self._command(tag)
        with command.turn(withdrawn) as has_turn:
            if not has_turn:
                return ruling._replace(verdict=Verdict.DENY)
            if (policy := self._policy_of(tag)) is None:
                return GONE
            # An answer to a question before this one may have become a rule.
            decision = self._judge().check_host(host, port, policy)
            if decision.verdict is not Verdict.ASK:
                return _ruling(decision)
            if not self._may_ask(command):
                settlement = Settlement(Answer.NO, ASKED_ENOUGH, SettlementOutcome.ASKED_ENOUGH)
            else:
                settlement = self._desk().ask(self._question(host, port, tag, decision), withdrawn.is_set)
                if settlement.outcome is SettlementOutcome.NOBODY:
                    with self._lock:
                        command.asked -= 1
        return _answered(host, port, decision, ruling, settlement)

    def _command(self, tag: str) -> _Command:
        with self._lock:
            command = self._asking.setdefault(tag, _Command())
            if len(self._asking) > MOST_COMMANDS:
                self._asking.popitem(last=False)
            return command

    def _may_ask(self, command: _Command) -> bool:
        """Whether one more may be; it is counted then."""
        with self._lock:
            is_enough = command.asked >= MOST_ASKED
            command.asked += not is_enough
            return not is_enough

    def _policy_of(self, tag: str) -> SandboxPolicy | None:
        """None once the command's pen has ended."""
        pen = self._pens.get(tag.partition(".")[0])
        return self._reach_of(pen) if pen else None

    def _reach_of(self, pen: PenReach) -> SandboxPolicy:
        return current_reach(pen, self._judge().law.settings)

    def _page_at(self, host: str, port: int | None) -> HostDecision | None:
        """The refusal if a person answers there: what runs inside never gets there, whatever rules say."""
        if port is None or not is_same(host, LOOPBACK):
            return None
        said, where = page_at(self._environ, port), f"{host}:{port}"
        if not said:
            return None
        return HostDecision(Verdict.DENY, f"{where} {said}, which nothing that runs inside may reach", where)

    def _of_any_pen(self, host: str, port: int | None) -> HostDecision:
        """A name is asked for by nobody in particular; what comes of it is judged when it is connected to."""
        policies = [self._reach_of(pen) for pen in list(self._pens.values())]
        rulings = [_ruling(self._judge().check_host(host, port, policy)) for policy in policies]
        denied = rulings[0] if rulings else GONE
        return next((ruling for ruling in rulings if ruling.verdict is not Verdict.DENY), denied)

    def _question(self, host: str, port: int, tag: str, decision: Decision) -> PermissionNeeded:
        request = self._commands.get(tag)
        settings = self._judge().law.last_settings
        choices = choices_of(decision, Capability.CONNECT, settings)
        rules = host_rules(host, port, decision, settings) if self._desk().writes_rules else ()
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self._session,
            capability=Capability.CONNECT,
            command=request.line if request else "",
            cwd=request.cwd if request else "",
            decision=decision,
            choices=(*choices, Answer.RULE) if rules else choices,
            host=host,
            port=port,
            run=str(request.entry) if request else "",
            rules=rules,
        )


def _ruling(decision: Decision) -> HostDecision:
    reason = decision.reasons[0]
    rule = reason.rule if reason.step in LISTED else ""
    return HostDecision(reason.verdict, reason.message, rule, remedy=reason.remedy)


def _answered(
    host: str, port: int, decision: Decision, ruling: HostDecision, settlement: Settlement
) -> HostDecision:
    if settlement.answer is Answer.NO:
        reason = decision.reasons[0]
        said = f"{reason.message}; {settlement.by}"
        answered = "" if settlement.outcome is SettlementOutcome.NOBODY else settlement.by
        return ruling._replace(
            verdict=Verdict.DENY,
            message=said,
            answered=answered,
            remedy=reason.remedy,
            asked_at=settlement.asked_at.value,
        )
    said = f"{host}:{port} was let through by {settlement.by}"
    return ruling._replace(verdict=Verdict.ALLOW, message=said, remedy="")
