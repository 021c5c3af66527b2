"""The way out of a session's pens, as the sandbox is given it: rules, a person and the journal for the gate.

The gate has a process of its own, which is started when the first program wants out: until then a thread
watches the doorbells, that is, the wardens' lines and the socket for questions about names.

INVARIANT: whatever goes wrong is a no, and once the gate is gone nothing gets out of this session any more.
"""

import os
import select
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pinfold.model.approval import Control
from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.errors import ConfinementError
from pinfold.model.hosts import is_same
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.policy import SandboxPolicy
from pinfold.model.violation import Violation
from pinfold.policy.reach import LOOPBACK, leads_out, lent_ports
from pinfold.sandbox.backend import Request
from pinfold.session.approvals import choices_of, host_rules
from pinfold.session.judge import Judge
from pinfold.session.page import page_at, page_file

if TYPE_CHECKING:
    from pinfold.approval import Desk
    from pinfold.network.line import Line
    from pinfold.network.ruling import Outcome, Ruling
    from pinfold.sandbox.gatehouse import Gatehouse
    from pinfold.session.ledger import Ledger

RESOLVER = "resolver"
LISTED = ("network_allow", "network_deny")
CARRIED = "carried"
"""The face whose refusals need no telling: the warden has done so."""
MOST_COMMANDS = 4096
"""Of how many commands we know by their tags what they are."""
MOST_REFUSED = 10_000
"""How many different refusals the journal is told of, one by one: a program can ask for any name."""


class Gateway:
    """May be used from any thread."""

    def __init__(
        self,
        session: str,
        judge: "Callable[[], Judge]",
        desk: "Callable[[], Desk]",
        ledger: "Callable[[], Ledger]",
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`environ` tells of the proxy that this machine uses."""
        self._environ = environ
        self._session, self._judge, self._desk, self._ledger = session, judge, desk, ledger
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._pens: dict[str, SandboxPolicy] = {}
        self._refusals: dict[str, Callable[[int, Violation], None]] = {}
        self._commands: OrderedDict[str, Request] = OrderedDict()
        self._refused: dict[tuple[str, str, int], int] = {}
        """How often each command was refused what."""
        self._faces: dict[int, tuple[str, socket.socket]] = {}
        """What waits for the gate to be started, by descriptor."""
        self._doorbells: select.epoll | None = None
        self._gatehouse: Gatehouse | None = None
        self._line: Line | None = None
        self._is_over = self._is_closed = False
        self._published: set[int] = set()
        """Ports of this machine that lead in."""
        self._granted: set[int] = set()
        """Those of them that the settings did not name: a person granted them to a command."""
        self._taken: set[int] = set()
        """Those that could not be had, and that this was told of."""
        self._reach: Callable[[], socket.socket] | None = None

    # What the sandbox tells

    def leads_out(self, policy: SandboxPolicy) -> bool:
        return leads_out(policy, self._judge().last_settings)

    def lent_ports(self, policy: SandboxPolicy) -> dict[int, str]:
        return lent_ports(policy, self._judge().last_settings)

    def attend(
        self,
        pen: str,
        policy: SandboxPolicy,
        warden: socket.socket,
        refused: Callable[[int, Violation], None],
    ) -> None:
        self._pens[pen] = policy
        self._refusals[pen] = refused
        self._add(pen, warden)

    def attend_names(self, resolver: socket.socket) -> None:
        self._add(RESOLVER, resolver)

    def publish(self, ports: Sequence[int], reach: Callable[[], socket.socket]) -> None:
        """A port that another program has is tried again with each command."""
        self._reach = reach
        self._granted.update(set(ports).difference(self._judge().last_settings.network.publish))
        self._withdraw()
        for port in ports:
            if port not in self._published:
                self._publish(port)

    def _publish(self, port: int) -> None:
        from pinfold.network.messages import PUBLISHED
        from pinfold.network.published import listeners

        try:
            found = listeners(port)
        except OSError as error:
            if port not in self._taken:
                self._taken.add(port)
                self._ledger().trouble(f"port {port} is not published: 127.0.0.1:{port}: {error.strerror}")
            return
        self._published.add(port)
        for listener in found:
            self._add(f"{PUBLISHED}{port}", listener)

    def _withdraw(self) -> None:
        """Takes back the ports that are not to lead in any more, by the settings as they are now."""
        from pinfold.network.messages import PUBLISHED

        settings = self._judge().settings
        networking = settings.admin.sandboxing_controls.sandbox_networking
        is_closed = networking is Control.ALWAYS_DISABLED
        kept = {*settings.network.publish, *(() if is_closed else self._granted)}
        with self._lock:
            gone = self._published - kept
            self._published &= kept
            faces = {f"{PUBLISHED}{port}" for port in gone}
            for descriptor, (face, sock) in list(self._faces.items()):
                if face in faces:
                    del self._faces[descriptor]
                    sock.close()
            if self._line and not self._is_over:
                for face in faces:
                    self._line.withdraw(face)

    def _lead_in(self, port: int) -> socket.socket:
        self._withdraw()
        if self._reach is None or port not in self._published:
            raise PermissionError(f"port {port} is not published")
        return self._reach()

    def began(self, pen: str, tag: int, request: Request) -> None:
        with self._lock:
            self._commands[f"{pen}.{tag:x}"] = request
            if len(self._commands) > MOST_COMMANDS:
                self._commands.popitem(last=False)

    def catch_up(self) -> None:
        if self._line and not self._is_over:
            with suppress(OSError, ValueError):  # it was closed just now
                self._line.catch_up()

    def change(self) -> None:
        """The session has another judge. Of changed files the gate knows by itself."""
        with self._lock:
            if self._line and not self._is_over:
                self._line.forget()
        if self._published:
            self._withdraw()

    def close(self) -> None:
        """Ends the gate, and every connection through it."""
        with self._lock:
            self._is_over = True
            line, gatehouse = self._line, self._gatehouse
            self._drop_faces()
            if self._doorbells:
                os.eventfd_write(self._stop, 1)
        if line and gatehouse:
            line.close()
            gatehouse.end()
        self._is_closed = True

    # The doorbells

    def _add(self, face: str, sock: socket.socket) -> None:
        with self._lock:
            if self._is_over:
                sock.close()
            elif self._line:
                self._line.add(face, sock)
                sock.close()
            else:
                self._faces[sock.fileno()] = face, sock
                if self._doorbells is None:
                    self._doorbells = select.epoll()
                    self._stop = os.eventfd(0, os.EFD_CLOEXEC)
                    self._doorbells.register(self._stop, select.EPOLLIN)
                    threading.Thread(target=self._watch, name="pinfold-doorbell", daemon=True).start()
                self._doorbells.register(sock.fileno(), select.EPOLLIN)

    def _watch(self) -> None:
        doorbells = self._doorbells
        assert doorbells is not None  # noqa: S101  (for mypy: the thread is started when there are some)
        while True:
            events = doorbells.poll()
            with self._lock:
                for descriptor, event in events:
                    if event & select.EPOLLHUP and descriptor in self._faces:
                        self._faces.pop(descriptor)[1].close()  # the pen has ended
                rung = any(descriptor in self._faces for descriptor, _ in events)
                if rung and not self._is_over:
                    self._open()
                if rung or self._is_over:
                    doorbells.close()
                    os.close(self._stop)
                    self._doorbells = None
                    return

    def _open(self) -> None:
        from pinfold.network.line import Line
        from pinfold.network.upstream import choose
        from pinfold.sandbox.gatehouse import Gatehouse

        try:
            self._gatehouse = Gatehouse()
        except ConfinementError as error:
            self._ledger().trouble(str(error))
            self._is_over = True
            self._drop_faces()
            return
        self._line = Line(
            self._gatehouse.line, self._decide, self._ask, self._record, self._ended, self._lead_in
        )
        self._line.start(upstream=choose(self._judge().last_settings.network.proxy, self._environ))
        for face, sock in self._faces.values():
            self._line.add(face, sock)
        self._drop_faces()

    def _drop_faces(self) -> None:
        """From here on they are the gate's alone: they end with it."""
        for _, sock in self._faces.values():
            sock.close()
        self._faces.clear()

    def _ended(self) -> None:
        with self._lock:
            is_expected, self._is_over = self._is_over, True
        if not is_expected:
            self._ledger().trouble("the gate has ended; nothing gets out of this session any more")

    # What the gate asks

    def _decide(self, host: str, port: int | None, tag: str) -> "Ruling":
        if not tag:
            return self._of_any_pen(host, port)
        if page := self._page_at(host, port):
            return page
        policy, judge = self._pens[tag.partition(".")[0]], self._judge()
        decision = judge.check_host(host, port, policy)
        ruling = _ruling(decision)
        if ruling.verdict is Verdict.ASK and port is not None:
            known = self._desk().known(self._question(host, port, tag, decision))
            return _answered(host, port, decision, ruling, known) if known else ruling
        # The page may be opened later, at a port that is let through now.
        files = (*judge.files, page_file(self._environ))
        return ruling._replace(files=files) if ruling.verdict is Verdict.ALLOW else ruling

    def _page_at(self, host: str, port: int | None) -> "Ruling | None":
        """The refusal if a person answers there: what runs inside never gets there, whatever rules say."""
        if port is None or not is_same(host, LOOPBACK):
            return None
        said = page_at(self._environ, port)
        return _our_page(host, port, said) if said else None

    def _of_any_pen(self, host: str, port: int | None) -> "Ruling":
        """A name is asked for by nobody in particular; what comes of it is judged when it is connected to."""
        policies = list(self._pens.values())
        rulings = [_ruling(self._judge().check_host(host, port, policy)) for policy in policies]
        return next((ruling for ruling in rulings if ruling.verdict is not Verdict.DENY), rulings[0])

    def _ask(self, host: str, port: int, tag: str, ruling: "Ruling", withdrawn: threading.Event) -> "Ruling":
        decision = self._judge().check_host(host, port, self._pens[tag.partition(".")[0]])
        if page := self._page_at(host, port):
            return page
        with self._asking:
            if withdrawn.is_set():
                return ruling._replace(verdict=Verdict.DENY)
            settlement = self._desk().ask(self._question(host, port, tag, decision), withdrawn.is_set)
        return _answered(host, port, decision, ruling, settlement)

    def _question(self, host: str, port: int, tag: str, decision: Decision) -> PermissionNeeded:
        request = self._commands.get(tag)
        settings = self._judge().last_settings
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
            run=tag,
            rules=rules,
        )

    def _record(self, outcome: "Outcome") -> None:
        """Every connection is told; a refusal once more when it has happened twice, four times as often."""
        if self._is_closed:
            return
        told = outcome._asdict()
        if outcome.verdict is not Verdict.ALLOW:
            what = (outcome.tag, outcome.host, outcome.port)
            if what not in self._refused and len(self._refused) >= MOST_REFUSED:
                what = ("", "", 0)
            self._tell_command(outcome)
            times = told["times"] = self._refused[what] = self._refused.get(what, 0) + 1
            if times & times - 1:
                return
        request = self._commands.get(outcome.tag)
        line, entry = (request.line, request.entry) if request else ("", 0)
        self._ledger().connected(told, line, entry)

    def _tell_command(self, outcome: "Outcome") -> None:
        """What the proxy has refused it, or which name; of the rest its warden tells."""
        pen, _, command = outcome.tag.partition(".")
        if outcome.face != CARRIED and pen in self._refusals:
            what = f"{outcome.host}:{outcome.port}" if outcome.port else outcome.host
            violation = Violation(
                "connect", what, outcome.rule, outcome.message, "", 0, grantable=True, times=1
            )
            self._refusals[pen](int(command, 16), violation)


def _ruling(decision: Decision) -> "Ruling":
    from pinfold.network.ruling import Ruling

    reason = decision.reasons[0]
    return Ruling(reason.verdict, _said(reason), reason.rule if reason.step in LISTED else "")


def _said(reason: Reason, answer: str = "") -> str:
    """Why, what came of asking, and last what would change it."""
    return "; ".join(part for part in (reason.message, answer, reason.remedy) if part)


def _our_page(host: str, port: int, said: str) -> "Ruling":
    from pinfold.network.ruling import Ruling

    where = f"{host}:{port}"
    return Ruling(Verdict.DENY, f"{where} {said}, which nothing that runs inside may reach", where)


def _answered(host: str, port: int, decision: Decision, ruling: "Ruling", settlement: Settlement) -> "Ruling":
    if settlement.answer is Answer.NO:
        said = _said(decision.reasons[0], f"it was asked for, but {settlement.by}")
        return ruling._replace(verdict=Verdict.DENY, message=said)
    said = f"{host}:{port} was let through by {settlement.by}"
    return ruling._replace(verdict=Verdict.ALLOW, message=said)
