"""The way out of a session's pens, as the sandbox is given it: starts the gate, and files what it tells.

The gate has a process of its own, which is started when the first program wants out: until then a thread
watches the doorbells, that is, the wardens' lines and the socket for questions about names. What may be
reached is said by `hosts`, and what leads in by `publishing`.

INVARIANT: whatever goes wrong is a no, and once the gate is gone nothing gets out of this session any more.
"""

import os
import select
import threading
from _socket import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pinfold.model.codes import AskedAt, ViolationCode
from pinfold.model.decision import Verdict
from pinfold.model.errors import ConfinementError, PinfoldError
from pinfold.model.policy import SandboxPolicy
from pinfold.model.violation import Violation
from pinfold.policy.network_scope import PenReach, allows_network, lent_ports
from pinfold.sandbox.backend import StartRequest
from pinfold.sandbox.poll_set import PollSet
from pinfold.sandbox.threads import begin_thread
from pinfold.session.journal import Repeats
from pinfold.session.judge import Judge
from pinfold.session.publish import Publishing
from pinfold.state.directory import names_file

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk
    from pinfold.network.host_decision import ConnectionOutcome
    from pinfold.network.session_link import Line
    from pinfold.sandbox.gate_process import GateProcess
    from pinfold.session.journal import Ledger

RESOLVER = "resolver"
CARRIED = "carried"
"""The face whose connects the warden tells of, where anybody was there to be refused; of nothing later."""
NOT_GRANTABLE = (
    ViolationCode.MALFORMED,
    ViolationCode.MISMATCHED,
    ViolationCode.BUSY,
    ViolationCode.REPEATED,
)
"""Refusals that no yes of a person's would change."""
MOST_COMMANDS = 4096
"""Of how many commands we know by their tags what they are."""


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
        self._pens: dict[str, PenReach] = {}
        self._refusals: dict[str, Callable[[int, Violation], None]] = {}
        self._commands: OrderedDict[str, StartRequest] = OrderedDict()
        self._repeats = Repeats()
        self._faces: dict[int, tuple[str, socket]] = {}
        """What waits for the gate to be started, by descriptor."""
        self._doorbells: PollSet | None = None
        self._gatehouse: GateProcess | None = None
        self._line: Line | None = None
        self._is_over = self._is_closed = False
        self._publishing = Publishing(judge, ledger, self._add, self._withdraw)

    # What the sandbox tells

    def leads_out(self, policy: SandboxPolicy) -> bool:
        return allows_network(policy, self._judge().law.last_settings)

    def lent_ports(self, policy: SandboxPolicy) -> dict[int, str]:
        return lent_ports(policy, self._judge().law.last_settings)

    def attend(
        self,
        pen: str,
        policy: SandboxPolicy,
        warden: socket,
        refused: Callable[[int, Violation], None],
    ) -> None:
        self._pens[pen] = PenReach(policy, tuple(self._judge().law.last_settings.network.allow))
        self._refusals[pen] = refused
        self._add(pen, warden)

    def attend_names(self, resolver: socket) -> None:
        self._add(RESOLVER, resolver)

    def publish(self, ports: Sequence[int], reach: Callable[[], socket]) -> None:
        self._publishing.publish(ports, reach)

    def began(self, pen: str, tag: int, request: StartRequest) -> None:
        with self._lock:
            self._commands[f"{pen}.{tag:x}"] = request
            if len(self._commands) > MOST_COMMANDS:
                self._commands.popitem(last=False)

    def ended(self, pen: str) -> None:
        with self._lock:
            self._pens.pop(pen, None)
            self._refusals.pop(pen, None)

    def catch_up(self, pen: str, tag: int) -> None:
        if self._line and not self._is_over:
            with suppress(OSError, ValueError):  # it was closed just now
                self._line.catch_up(f"{pen}.{tag:x}")

    def change(self) -> None:
        """The session has another judge. Of changed files the gate knows by itself."""
        with self._lock:
            if self._line and not self._is_over:
                self._line.forget()
        self._publishing.change()

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

    def _add(self, face: str, sock: socket) -> None:
        with self._lock:
            if self._is_over:
                sock.close()
            elif self._line:
                self._line.add(face, sock)
                sock.close()
            else:
                if self._doorbells is None:
                    self._doorbells = self._begin_watch()
                self._faces[sock.fileno()] = face, sock
                self._doorbells.register(sock.fileno())

    def _begin_watch(self) -> PollSet:
        """Raises OSError if nobody can watch. Preconditions: the lock is held."""
        doorbells = PollSet()
        try:
            self._stop = os.eventfd(0, os.EFD_CLOEXEC)
            try:
                doorbells.register(self._stop)
                begin_thread(partial(self._watch, doorbells), "doorbell")
            except OSError:
                os.close(self._stop)
                raise
        except OSError:
            doorbells.close()
            raise
        return doorbells

    def _withdraw(self, faces: Iterable[str]) -> None:
        with self._lock:
            for descriptor, (face, sock) in list(self._faces.items()):
                if face in faces:
                    del self._faces[descriptor]
                    if self._doorbells:
                        self._doorbells.unregister(descriptor)
                    sock.close()
            if self._line and not self._is_over:
                for face in faces:
                    self._line.withdraw(face)

    def _watch(self, doorbells: PollSet) -> None:
        while True:
            events = doorbells.poll()
            with self._lock:
                for descriptor, event in events:
                    if event & select.POLLHUP and descriptor in self._faces:
                        doorbells.unregister(descriptor)
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
        try:
            self._begin_gate()
        except ConfinementError as error:
            self._give_up(str(error))
        except Exception as error:  # noqa: BLE001  (whatever it was, nobody is left waiting for a gate)
            self._give_up(f"the gate could not be started: {error}")
        self._drop_faces()

    def _give_up(self, why: str) -> None:
        self._is_over = True
        if self._gatehouse:
            self._gatehouse.end()
        self._gatehouse = self._line = None
        with suppress(PinfoldError):  # the session is closed
            self._ledger().trouble(why)

    def _begin_gate(self) -> None:
        from pinfold.network.session_link import Line
        from pinfold.network.upstream import choose
        from pinfold.sandbox.gate_process import GateProcess
        from pinfold.session.host_questions import Hosts

        self._gatehouse = GateProcess()
        hosts = Hosts(self._session, self._judge, self._desk, self._environ, self._pens, self._commands)
        self._line = Line(
            self._gatehouse.line,
            hosts.decide,
            hosts.ask,
            self._record,
            self._ended,
            self._publishing.lead_in,
        )
        upstream = choose(self._judge().law.last_settings.network.proxy, self._environ)
        self._line.start(upstream=upstream, names=names_file(self._environ))
        for face, sock in self._faces.values():
            self._line.add(face, sock)

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

    # What the gate tells

    def _record(self, outcome: "ConnectionOutcome") -> None:
        """Every connection is told; one like another only once more when it is the second, fourth, eighth."""
        if self._is_closed:
            return
        if outcome.verdict is not Verdict.ALLOW:
            self._tell_command(outcome)
        what = (outcome.host, outcome.port, outcome.face, outcome.verdict)
        if times := self._repeats.count(outcome.tag, what):
            request = self._commands.get(outcome.tag)
            told = {**outcome._asdict(), "message": outcome.told, "times": times}
            self._ledger().connected(told, request.entry if request else 0)

    def _tell_command(self, outcome: "ConnectionOutcome") -> None:
        """What the proxy has refused it, or which name; of the rest its warden tells."""
        pen, _, command = outcome.tag.partition(".")
        is_told = outcome.face == CARRIED and not (outcome.is_left or outcome.is_late)
        refused = self._refusals.get(pen)
        if refused and not is_told:
            what = f"{outcome.host}:{outcome.port}" if outcome.port else outcome.host
            code = ViolationCode(outcome.why or ViolationCode.DENIED)
            violation = Violation(
                "connect",
                what,
                outcome.rule,
                outcome.message,
                program="",
                pid=0,
                grantable=code not in NOT_GRANTABLE,
                code=code,
                answered=outcome.answered,
                asked_at=AskedAt(outcome.asked_at),
                remedy=outcome.remedy,
            )
            refused(int(command, 16), violation)
