"""How a session's pens reach hosts, as the sandbox sees it: starts the gate, and files what it tells.

The gate is a process of its own. It is started when the first program wants to connect. Until then a thread
watches the doorbells: the wardens' lines and the socket for questions about names. `host_rules` says what may
be reached, and `publish` which ports lead in.

INVARIANT: any failure is a no. Once the gate is gone, nothing leaves this session any more.
"""

import os
import select
import threading
from _socket import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pinfold.audit.journal import Repeats
from pinfold.model.codes import AskedAt, ViolationCode
from pinfold.model.decision import Verdict
from pinfold.model.errors import ConfinementError, PinfoldError
from pinfold.model.policy import SandboxPolicy
from pinfold.model.violation import Violation
from pinfold.policy.network_scope import PenReach, allows_network, lent_ports
from pinfold.sandbox.backend import StartRequest
from pinfold.sandbox.poll_set import PollSet
from pinfold.sandbox.threads import begin_thread
from pinfold.state.directory import names_file

if TYPE_CHECKING:
    from pinfold.network.host.host_rules import ConnectingSession
    from pinfold.network.host.publish import Publishing
    from pinfold.network.host_decision import ConnectionOutcome
    from pinfold.network.session_link import Line
    from pinfold.sandbox.gate_process import GateProcess

RESOLVER = "resolver"
CARRIED = "carried"
"""The face whose connects the warden reports while the program waits for them, and nothing later."""
NOT_GRANTABLE = (
    ViolationCode.MALFORMED,
    ViolationCode.MISMATCHED,
    ViolationCode.BUSY,
    ViolationCode.REPEATED,
)
"""Refusals that a person's yes would not change."""
MOST_COMMANDS = 4096
"""How many commands are known by their tags."""


class Gateway:
    """May be used from any thread."""

    def __init__(self, session: "ConnectingSession") -> None:
        self._session = session
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
        self._publishing: Publishing | None = None
        """There once a port is published."""

    # What the sandbox tells

    def leads_out(self, policy: SandboxPolicy) -> bool:
        return allows_network(policy, self._session.settings)

    def lent_ports(self, policy: SandboxPolicy) -> dict[int, str]:
        return lent_ports(policy, self._session.settings)

    def attend(
        self,
        pen: str,
        policy: SandboxPolicy,
        warden: socket,
        refused: Callable[[int, Violation], None],
    ) -> None:
        self._pens[pen] = PenReach(policy, tuple(self._session.settings.network.allow))
        self._refusals[pen] = refused
        self._add(pen, warden)

    def attend_names(self, resolver: socket) -> None:
        self._add(RESOLVER, resolver)

    def publish(self, ports: Sequence[int], reach: Callable[[], socket]) -> None:
        if self._publishing is None:
            from pinfold.network.host.publish import Publishing

            with self._lock:
                self._publishing = self._publishing or Publishing(self._session, self._add, self._withdraw)
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
        """The session has other settings. The gate notices changed files by itself."""
        with self._lock:
            if self._line and not self._is_over:
                self._line.forget()
        if self._publishing is not None:
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
        """Raises OSError if there is nothing to watch with. Preconditions: the lock is held."""
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
        except Exception as error:  # noqa: BLE001  (no program is left waiting for a gate)
            self._give_up(f"the gate could not be started: {error}")
        self._drop_faces()

    def _give_up(self, why: str) -> None:
        self._is_over = True
        if self._gatehouse:
            self._gatehouse.end()
        self._gatehouse = self._line = None
        with suppress(PinfoldError):  # the session is closed
            self._session.last_ledger.trouble(why)

    def _begin_gate(self) -> None:
        from pinfold.network.host.host_rules import HostRules
        from pinfold.network.session_link import Line
        from pinfold.network.upstream import choose
        from pinfold.sandbox.gate_process import GateProcess

        self._gatehouse = GateProcess()
        hosts = HostRules(self._session, self._pens, self._commands)
        self._line = Line(
            self._gatehouse.line,
            hosts.open,
            self._record,
            self._ended,
            self._lead_in,
        )
        upstream = choose(self._session.settings.network.proxy, self._session.environ)
        self._line.start(upstream=upstream, names=names_file(self._session.environ))
        for face, sock in self._faces.values():
            self._line.add(face, sock)

    def _lead_in(self, port: int) -> socket:
        if self._publishing is None:
            raise PermissionError(f"port {port} is not published")
        return self._publishing.lead_in(port)

    def _drop_faces(self) -> None:
        """From here on they are the gate's alone: they end with it."""
        for _, sock in self._faces.values():
            sock.close()
        self._faces.clear()

    def _ended(self) -> None:
        with self._lock:
            is_expected, self._is_over = self._is_over, True
        if not is_expected:
            self._session.last_ledger.trouble("the gate has ended; nothing gets out of this session any more")

    # What the gate tells

    def _record(self, outcome: "ConnectionOutcome") -> None:
        """Journals every connection; of those like another, the second, fourth, eighth and so on."""
        if self._is_closed:
            return
        if outcome.verdict is not Verdict.ALLOW:
            self._tell_command(outcome)
        what = (outcome.host, outcome.port, outcome.face, outcome.verdict)
        if times := self._repeats.count(outcome.tag, what):
            request = self._commands.get(outcome.tag)
            told = {**outcome._asdict(), "message": outcome.told, "times": times}
            self._session.last_ledger.connected(told, request.entry if request else 0)

    def _tell_command(self, outcome: "ConnectionOutcome") -> None:
        """What the proxy or the resolver has denied; the warden reports the rest."""
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
