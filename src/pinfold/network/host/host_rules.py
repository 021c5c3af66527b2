"""Whether a command may reach a host: by the rules, by an answer that is known, or by asking a person.

INVARIANT: no rule opens Pinfold's own page, where a person answers.

Connections of a command to a host are one question to the broker, which bounds how much a command asks. A
connection to another port of the host waits for that answer too, and is then judged anew.
"""

import os
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pinfold.approval.question_limits import choices_of, host_rules
from pinfold.model.decision import Decision, StepCode, Verdict
from pinfold.model.hosts import is_same
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement, SettlementOutcome
from pinfold.network.host_decision import HostDecision
from pinfold.policy.connect import check_host
from pinfold.policy.network_scope import LOOPBACK, PenReach, current_reach
from pinfold.sandbox.backend import StartRequest
from pinfold.state.web_page import page_at, page_file

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk
    from pinfold.model.settings import Settings

LISTED = (StepCode.NETWORK_ALLOW, StepCode.NETWORK_DENY)
TOO_MANY_REMEDY = "answer them, or add the host to `network.allow`"
BY_A_PERSON = "a person's answer"
Say = Callable[[HostDecision], None]


GONE = HostDecision(Verdict.DENY, "the sandbox of the command has ended")


class ConnectionBook(Protocol):
    """Where connections are journaled."""

    def connected(self, outcome: Mapping[str, object], entry: int) -> None: ...

    def trouble(self, text: str) -> None: ...


class ConnectingSession(Protocol):
    """The session whose commands connect, as far as the gate's mediation needs it."""

    id: str
    environ: Mapping[str, str]

    @property
    def settings(self) -> "Settings":
        """Those in force at the time when a connection is made."""

    @property
    def settings_files(self) -> tuple[str, ...]:
        """Every path that settings are read from, or would be if it were there."""

    @property
    def desk(self) -> "Desk": ...

    @property
    def last_ledger(self) -> ConnectionBook:
        """It is there for a session that is being closed too."""


class HostRules:
    """May be used from any thread."""

    def __init__(
        self, session: ConnectingSession, pens: Mapping[str, PenReach], commands: Mapping[str, StartRequest]
    ) -> None:
        """`pens` are those that there are by now, `commands` what is known by its tag."""
        self._session, self._pens, self._commands = session, pens, commands
        self._token = object()
        """Tells its commands from those that have the same tags in another session of a keeper."""

    def open(
        self, host: str, port: int | None, tag: str, may_ask: bool, say: Say
    ) -> Callable[[], None] | None:
        """Says what is decided, and does not wait. If that is ASK and a person may be asked, says later what
        they answered; returns what withdraws the question."""
        if not tag:
            say(self._of_any_pen(host, port))
            return None
        decision, ruling = self._decided(host, port, tag)
        say(ruling)
        if decision is None or port is None or ruling.verdict is not Verdict.ASK or not may_ask:
            return None
        waiting = _WaitingConnection(self, host, port, tag, say)
        waiting.put(decision)
        return waiting.withdraw

    def _decided(self, host: str, port: int | None, tag: str) -> tuple[Decision | None, HostDecision]:
        """What holds now, with the decision that it comes from: there is none about Pinfold's own page."""
        if page := self._page_at(host, port):
            return None, page
        pen = self._pens.get(tag.partition(".")[0])
        if pen is None:
            return None, GONE
        decision = self._decision_under(pen, host, port)
        ruling = _ruling(decision)
        if ruling.verdict is Verdict.ASK and port is not None:
            known = self._session.desk.known(self._question(host, port, tag, decision))
            return decision, _answered(host, port, decision, known) if known else ruling
        # The page may be opened later, at a port that is let through now.
        files = (*self._session.settings_files, page_file(self._session.environ))
        return decision, ruling._replace(files=files) if ruling.verdict is Verdict.ALLOW else ruling

    def _decision_under(self, pen: PenReach, host: str, port: int | None) -> Decision:
        """By the settings as they are now: the policy of the pen without what they name no longer."""
        settings = self._session.settings
        return check_host(host, port, settings, current_reach(pen, settings))

    def _page_at(self, host: str, port: int | None) -> HostDecision | None:
        """The refusal if a person answers there: no rule opens that to what runs inside."""
        if port is None or not is_same(host, LOOPBACK):
            return None
        said, where = page_at(self._session.environ, port), f"{host}:{port}"
        if not said:
            return None
        return HostDecision(Verdict.DENY, f"{where} {said}, which nothing that runs inside may reach", where)

    def _of_any_pen(self, host: str, port: int | None) -> HostDecision:
        """The resolver does not know which command asks for a name; a connection to it is judged later."""
        rulings = [_ruling(self._decision_under(pen, host, port)) for pen in list(self._pens.values())]
        denied = rulings[0] if rulings else GONE
        return next((ruling for ruling in rulings if ruling.verdict is not Verdict.DENY), denied)

    def _question(self, host: str, port: int, tag: str, decision: Decision) -> PermissionNeeded:
        request = self._commands.get(tag)
        settings = self._session.settings
        choices = choices_of(decision, Capability.CONNECT, settings)
        rules = host_rules(host, port, decision, settings) if self._session.desk.writes_rules else ()
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self._session.id,
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


class _WaitingConnection:
    """A connection that waits for an answer about its host."""

    def __init__(self, rules: HostRules, host: str, port: int, tag: str, say: Say) -> None:
        self._rules, self._host, self._port, self._tag, self._say = rules, host, port, tag, say
        self._lock = allocate_lock()
        self._is_withdrawn = False
        self._withdraw: Callable[[], None] | None = None

    def put(self, decision: Decision) -> None:
        rules, question = self._rules, _HostQuestion(self._rules, self._host, self._port, self._tag, decision)
        command = ("connect", rules._token, self._tag)
        withdraw = rules._session.desk.calls.put(command, self._host, question, self._answered)
        with self._lock:
            self._withdraw = withdraw
            is_withdrawn = self._is_withdrawn
        if is_withdrawn:
            withdraw()

    def withdraw(self) -> None:
        with self._lock:
            self._is_withdrawn = True
            withdraw = self._withdraw
        if withdraw is not None:
            withdraw()

    def _answered(self, answer: "_PortAnswer") -> None:
        if answer.port == self._port:
            self._say(answer.ruling)
            return
        # Another port of the host: the answer may have settled this one too.
        try:
            decision, ruling = self._rules._decided(self._host, self._port, self._tag)
            if decision is None or ruling.verdict is not Verdict.ASK:
                self._say(ruling)
            else:
                self.put(decision)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            self._say(_unanswered(error))


class _PortAnswer(NamedTuple):
    port: int
    ruling: HostDecision


class _HostQuestion:
    """A connection that waits, as the broker asks about it."""

    def __init__(self, rules: HostRules, host: str, port: int, tag: str, decision: Decision) -> None:
        self._rules, self._host, self._port, self._tag, self._decision = rules, host, port, tag, decision

    def known(self) -> _PortAnswer | None:
        """An answer to a question before this one may have become a rule."""
        decision, ruling = self._rules._decided(self._host, self._port, self._tag)
        if decision is None or ruling.verdict is not Verdict.ASK:
            return _PortAnswer(self._port, ruling)
        self._decision = decision
        return None

    def ask(self, is_withdrawn: Callable[[], bool]) -> tuple[_PortAnswer | None, bool]:
        question = self._rules._question(self._host, self._port, self._tag, self._decision)
        settlement = self._rules._session.desk.ask(question, is_withdrawn)
        if settlement.outcome is SettlementOutcome.WITHDRAWN:
            return None, True
        return self._answer(settlement), settlement.outcome is not SettlementOutcome.NOBODY

    def denied(self, settlement: Settlement) -> _PortAnswer:
        if settlement.outcome is SettlementOutcome.NOBODY:
            return _PortAnswer(self._port, HostDecision(Verdict.DENY, settlement.by, remedy=TOO_MANY_REMEDY))
        return self._answer(settlement)

    def _answer(self, settlement: Settlement) -> _PortAnswer:
        ruling = _answered(self._host, self._port, self._decision, settlement)
        if ruling.verdict is Verdict.ALLOW:
            ruling = ruling._replace(rule=BY_A_PERSON)
        return _PortAnswer(self._port, ruling)

    def failed(self, error: Exception) -> _PortAnswer:
        return _PortAnswer(self._port, _unanswered(error))

    def holds(self, answer: _PortAnswer) -> bool:  # noqa: ARG002
        """What was answered is found by `HostRules` before it asks."""
        return False


def _unanswered(error: Exception) -> HostDecision:
    return HostDecision(Verdict.DENY, f"no answer could be found: {error}")


def _ruling(decision: Decision) -> HostDecision:
    reason = decision.reasons[0]
    rule = reason.rule if reason.step in LISTED else ""
    return HostDecision(reason.verdict, reason.message, rule, remedy=reason.remedy)


def _answered(host: str, port: int, decision: Decision, settlement: Settlement) -> HostDecision:
    ruling = _ruling(decision)
    if settlement.answer is Answer.NO:
        return ruling._replace(
            verdict=Verdict.DENY,
            message=f"{ruling.message}; {settlement.by}",
            answered="" if settlement.outcome is SettlementOutcome.NOBODY else settlement.by,
            asked_at=settlement.asked_at.value,
        )
    said = f"{host}:{port} was let through by {settlement.by}"
    return ruling._replace(verdict=Verdict.ALLOW, message=said, remedy="")
