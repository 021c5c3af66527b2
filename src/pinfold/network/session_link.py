"""The session's end of the line to its gate: answers what the gate asks, and gives it its faces.

INVARIANT: any failure in answering is a no, and a gate that is gone opens nothing.

`open` is called on the line's own thread, so it must not wait. It may say the answer of a person later, on
any thread.
"""

import _socket
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from pinfold.model.decision import Verdict
from pinfold.network import link_messages
from pinfold.network.host_decision import ConnectionOutcome, HostDecision
from pinfold.network.limits import GateLimits
from pinfold.network.link_messages import (
    PUBLISHED,
    AddFace,
    CatchUp,
    CaughtUp,
    ForgetDecisions,
    FromGate,
    FromSession,
    HostDecided,
    OpenHost,
    PortReached,
    ReachPort,
    RecordConnection,
    StartGate,
    WithdrawPort,
    WithdrawQuestion,
)
from pinfold.network.upstream import Upstream

LAST_WORDS = 2.0
"""Seconds that a gate may take to end."""

MOST_REACHING = 64
"""Threads that wait for ports inside."""
CATCHING_UP, STEP = 0.5, 0.001
"""Seconds that a gate is listened to at most, and between two looks."""


Open = Callable[[str, int | None, str, bool, Callable[[HostDecision], None]], Callable[[], None] | None]
"""Decides about a host and a port, or else any port, for the command with this tag. Says the decision at
once. If that is ASK and a person may be asked, says their answer later, and returns what withdraws the
question."""


class Line:
    def __init__(
        self,
        sock: socket.socket,
        open: Open,
        record: Callable[[ConnectionOutcome], None],
        ended: Callable[[], None],
        reach: Callable[[int], _socket.socket] | None = None,
    ) -> None:
        """`ended` is called once, when the gate is gone. `reach` makes the socket for a connection to a port
        inside, or raises; it may wait."""
        self._sock = sock
        self._open, self._record, self._ended = open, record, ended
        self._reach = reach
        self._sending, self._hearing = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._asking: dict[int, Callable[[], None]] = {}
        """What withdraws each question that the gate waits for, by its number."""
        self._questions = threading.Lock()
        """Of these; held for moments."""
        self._reaching = threading.BoundedSemaphore(MOST_REACHING)
        self._catching_up: dict[int, threading.Event] = {}
        self._numbers = count(1)

    def start(
        self,
        limits: GateLimits = GateLimits(),  # noqa: B008  (it is a value)
        upstream: Upstream | None = None,
        names: str = "",
    ) -> None:
        """Begins to answer the gate, which has no faces yet. Raises RuntimeError if no thread can.

        `names` is the file in which a user's gates count the names below wildcards.
        """
        self._send(StartGate(limits, upstream, names))
        thread = threading.Thread(target=self._serve, name="pinfold-gate", daemon=True)
        thread.start()
        self._thread = thread

    def add(self, face: str, sock: _socket.socket) -> None:
        """One more face: `RESOLVER`, or the name of a pen, whose warden is at the other end."""
        self._send(AddFace(face), [sock])

    def withdraw(self, face: str) -> None:
        """Takes a published port back; connections that are open stay open."""
        self._send(WithdrawPort(int(face.removeprefix(PUBLISHED))))

    def forget(self) -> None:
        """The rules have changed: the gate asks anew about each later connection."""
        self._send(ForgetDecisions())

    def close(self) -> None:
        """Ends the gate; what it still has to say is heard."""
        with suppress(OSError):  # it is gone already
            self._sock.shutdown(socket.SHUT_WR)
        if self._thread:
            self._thread.join(LAST_WORDS)

    def catch_up(self, tag: str) -> None:
        """Waits until all that the gate has said by now is heard, and has to say of a command that has ended;
        not for long, if it goes on and on."""
        self._hear_all()
        if self._asking:
            # The program that waits for an answer may have ended, and the gate not have seen it yet.
            number = next(self._numbers)
            caught_up = self._catching_up[number] = threading.Event()
            self._send(CatchUp(number, tag))
            caught_up.wait(CATCHING_UP)
            del self._catching_up[number]

    def _hear_all(self) -> None:
        patience = time.monotonic() + CATCHING_UP
        while _is_readable(self._sock, 0) and time.monotonic() < patience:
            time.sleep(STEP)
        if self._hearing.acquire(timeout=CATCHING_UP):
            self._hearing.release()

    def _serve(self) -> None:
        # INVARIANT: a message is taken and handled under one lock, so what is not in the socket is heard.
        is_open = True
        while is_open:
            _is_readable(self._sock, None)
            with self._hearing:
                try:
                    message = link_messages.from_gate(self._sock)
                except OSError:
                    message = None
                if message is not None:
                    self._handle(message)
                is_open = message is not None
        for number in list(self._asking):
            self._withdraw(number)
        self._ended()

    def _handle(self, message: FromGate) -> None:
        match message:
            case OpenHost():
                self._answer(message)
            case ReachPort(number, port):
                self._begin_to_reach(number, port)
            case WithdrawQuestion(number):
                self._withdraw(number)
            case CaughtUp(number):
                if caught_up := self._catching_up.get(number):
                    caught_up.set()
            case RecordConnection(outcome):
                self._record(outcome)

    def _answer(self, asked: OpenHost) -> None:
        number = asked.number
        say = partial(self._say, number)
        with self._questions:
            self._asking[number] = _nothing  # the answer may come before it is known how to withdraw it
        try:
            withdraw = self._open(asked.host, asked.port, asked.tag_of_command, asked.may_ask, say)
        except Exception as error:  # noqa: BLE001  (whatever it was, it is a no)
            say(HostDecision(Verdict.DENY, f"no answer could be found: {error}"))
            return
        with self._questions:
            if number in self._asking and withdraw is not None:
                self._asking[number] = withdraw
            else:
                self._asking.pop(number, None)

    def _say(self, number: int, ruling: HostDecision) -> None:
        if ruling.verdict not in set(Verdict):
            ruling = HostDecision(Verdict.DENY, "no answer could be found")
        if ruling.verdict is not Verdict.ASK:
            with self._questions:
                self._asking.pop(number, None)
        self._send(HostDecided(number, link_messages.bounded_decision(ruling)))

    def _withdraw(self, number: int) -> None:
        with self._questions:
            withdraw = self._asking.pop(number, _nothing)
        withdraw()

    def _begin_to_reach(self, number: int, port: int) -> None:
        if self._reaching.acquire(blocking=False):
            if _has_begun("reach", self._reach_in, number, port):
                return
            self._reaching.release()
        self._send(PortReached(number))

    def _reach_in(self, number: int, port: int) -> None:
        try:
            sockets = [self._reach(port)] if self._reach else []
        except Exception:  # noqa: BLE001  (after any failure no client is led in)
            sockets = []
        self._send(PortReached(number), sockets)
        for sock in sockets:
            sock.close()
        self._reaching.release()

    def _send(self, message: FromSession, sockets: Sequence[_socket.socket] = ()) -> None:
        descriptors = [sock.fileno() for sock in sockets]
        try:
            with self._sending:
                socket.send_fds(self._sock, [link_messages.encode(message)], descriptors)
        except OSError:
            return  # the reading side finds out and says so


def _nothing() -> None:
    """Withdraws what is not asked."""


def _has_begun(name: str, work: Callable[..., None], *arguments: object) -> bool:
    try:
        threading.Thread(target=work, args=arguments, name=f"pinfold-{name}", daemon=True).start()
    except RuntimeError:  # the user's processes are all used up
        return False
    return True


def _is_readable(sock: socket.socket, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(timeout))
