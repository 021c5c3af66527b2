"""Connections that leave the pen: the warden asks the gate, and joins the caller's own socket to the gate's.

A program connects to an address. The gate opens a connection to the host behind that address. Then a
listener of the warden's at that very address accepts the caller's connection (`loopback_accept`), and the
gate gets our side of it. So the program keeps its socket, with its options and epoll registrations, and
getpeername returns the address that it asked for.

INVARIANT: the gate gets the caller's own connection: its address is the one of the caller's socket. The
warden joins no connection that the gate has not opened, and without the gate every connect is denied.

The states of a connect (`PendingConnect`), by the collection that holds it:

| in | waits for | then |
|---|---|---|
| `handed_over` | the thread, which the bell wakes | the gate is asked; a proxy connect is accepted |
| `waiting` | the gate's answer | yes: accepted and joined; no: denied |
| `waiting`, and has `ours` | the gate's answer, while its caller is connected to us | joined, or reset |
| `late` | the caller's connection to arrive at our listener | its next step; denied after `PATIENCE` |

A connect may be in `late` and in `waiting`: it is to be accepted, and the answer may come first.

Two threads do this. The loop that answers calls (`connect`) does what need not wait, and hands over the rest.
The client's own thread (`_serve`) does everything later. Both put connects into `waiting`, and the one that
takes a connect out answers it. Otherwise the loop only reads `late`, `is_gone` and `is_watching`.

Facts that shape it:
- A question may wait for a person. A blocking connect can wait. A non-blocking caller gets a connection after
  `MOMENT`, and a reset if the answer is no.
- Waking a thread takes longer than connecting a caller to the proxy. So the loop does that by itself. What
  takes longer than a moment goes to the thread, which also has the capability to listen at low ports.
- A program can keep its own connection from being established (`loopback_accept`). So neither thread waits
  for a connection: late ones are checked like those that wait for an answer.
- A killed caller causes no event, and one that handles ctrl-C goes on waiting: while connects wait, the
  thread checks on them.
"""

import errno
import os
import resource
import select
import signal
import socket
import struct
import time
from _queue import Empty, SimpleQueue
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import count

from pinfold.kernel import capabilities
from pinfold.kernel.process import Alarm
from pinfold.model.codes import ViolationCode
from pinfold.model.fair_share import fair_share, has_room
from pinfold.model.gate_protocol import (
    DROP,
    JOIN,
    LONGEST,
    NAMES,
    OPEN,
    PROXY,
    GateAnswer,
    GateRequest,
    parse_answer,
)
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.protocol.warden import Denial
from pinfold.sandbox.linux.warden import watchdog
from pinfold.sandbox.linux.warden.loopback_accept import LoopbackListener, is_nonblocking, send_timeout
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.socket_address import Peer
from pinfold.sandbox.linux.warden.violations import ViolationLog

MOMENT = 0.05
"""Seconds that a non-blocking caller waits for a decision."""
LOOK = 0.05
"""Seconds between two checks whether callers are still there."""
AT_ONCE, PATIENCE = 0.005, 1.0
"""Seconds in which a loopback connection normally arrives, and in which it must."""
MOST = 512
"""How many connects may wait at a time if there are enough descriptors; a further one gets EAGAIN."""
EACH = 4
"""One waiting connect per this many descriptors: each takes two, and other calls need some."""
WAKING = signal.SIGUSR1
"""Ends what the thread waits in; SIGALRM is for the loop."""
GONE = "the gate process has ended, so no connection leaves the sandbox; start a new session"
HUNG_UP = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_RESET = struct.pack("ii", 1, 0)


OnConnected = Callable[[int, socket.socket | None], None]
"""The next step: takes the result of the caller's connect, and our side of the connection."""


class PendingConnect:
    """A connect that waits."""

    def __init__(
        self, caller: Caller, sock: int, address: bytes, peer: Peer, *, to_proxy: bool, lent_host: str = ""
    ) -> None:
        """Takes ownership of the descriptor. Every caller may connect to the proxy, which sees each request
        and decides.

        `lent_host` is the host name of a lent loopback port.
        """
        self.caller = caller
        self.to_proxy = to_proxy
        self.sock = socket.socket(fileno=sock)
        self.address = address
        self.peer = peer
        self.host = lent_host or peer.host
        """The host that the gate is asked about."""
        self.tag = caller.tag() if to_proxy else caller.identify()[0]
        """Read now, since the caller may have ended when the answer comes."""
        self.deadline: float | None = None
        if not to_proxy:
            patience = MOMENT if is_nonblocking(self.sock) else send_timeout(self.sock)
            self.deadline = time.monotonic() + patience if patience > 0 else None
        self.listener: LoopbackListener | None = None
        """Listens for the caller's connection, once that was tried."""
        self.ours: socket.socket | None = None
        """Our side, if the caller got its connection before the answer."""

    def accept(self, seconds: float) -> tuple[int, socket.socket | None] | None:
        """Connects the caller's socket to a listener of ours. Returns the result for the caller, and our side
        of the connection; None if it takes longer."""
        if not self.caller.is_waiting():
            return errno.EINTR, None
        try:
            self.listener = self.listener or LoopbackListener(self.sock, self.address, self.peer)
            return self.listener.accept(seconds)
        except OSError:  # no address to listen at, or no descriptor left
            return errno.ENETUNREACH, None

    def is_abandoned(self) -> bool:
        """Whether the caller waits for no answer any more."""
        if self.ours is None:
            return not self.caller.is_waiting() or self.caller.is_interrupted()
        poll = select.poll()
        poll.register(self.ours, HUNG_UP)
        return bool(poll.poll(0))

    def close(self) -> None:
        self.sock.close()
        if self.listener:
            self.listener.close()
        if self.ours:
            self.ours.close()


class GateClient:
    """Carries connects to the gate. The thread starts with the first one."""

    def __init__(self, gate: socket.socket, records: ViolationLog, lent_ports: dict[int, str]) -> None:
        self.gate = gate
        self.records = records
        self.lent_ports = lent_ports
        """Lent loopback ports of the host, and the name to ask the gate for."""
        self.handed_over: SimpleQueue[PendingConnect] = SimpleQueue()
        """Connects for the thread; `bell` wakes it."""
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.started = False
        self.is_watching = False
        """Whether the thread checks on waiting connects without being woken for a new one."""
        self.waiting: dict[int, PendingConnect] = {}
        """Connects that the gate was asked about, by the number of the request."""
        self.late: dict[PendingConnect, tuple[OnConnected, float]] = {}
        """Connections that have not arrived at our listener: the next step for each, and the deadline."""
        self.writable = select.poll()
        self.writable.register(gate, select.POLLOUT)
        self.numbers = count(1)
        self.is_gone = False
        self.most = min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // EACH)
        watchdog.prepare(WAKING)

    def connect(self, pending: PendingConnect) -> None:
        """Answers at once if nothing has to be waited for, else later, from the thread."""
        if not self.started:
            pending.caller.affinity.unpin_self()
            start_new_thread(self._serve, ())
            self.started = True
        if not (self._try_proxy(pending) if pending.to_proxy else self._try_ask(pending)):
            self.handed_over.put(pending)
            os.eventfd_write(self.bell, 1)

    def announce_dns(self, tag: int, descriptor: int) -> None:
        """A socket of this command is about to send DNS queries: the gate hears of it before the first
        query."""
        with socket.socket(fileno=os.dup(descriptor)) as sock, suppress(OSError):
            port = sock.getsockname()[1]
            self.gate.send(GateRequest(NAMES, tag=tag, port=port).encoded(), socket.MSG_DONTWAIT)

    def _try_ask(self, pending: PendingConnect) -> bool:
        """Asks the gate from the loop, since waking the thread takes longer; False if the thread must do it.

        INVARIANT: the loop does not wait here, and the thread knows a caller before the gate knows its
        request.
        """
        if not self.is_watching or self.is_gone or not self._has_room_for(pending):
            return False
        number = next(self.numbers)
        self.waiting[number] = pending
        try:
            self.gate.send(_open_request(number, pending).encoded(), socket.MSG_DONTWAIT)
        except OSError:
            return self.waiting.pop(number, None) is None  # if it is not there, the thread has denied it
        if not self.is_watching:  # the thread went to sleep meanwhile, and may not have seen this one
            os.eventfd_write(self.bell, 1)
        return True

    def _count(self) -> int:
        return len(self.waiting) + len(self.late)

    def _has_room_for(self, pending: PendingConnect) -> bool:
        if self._count() < fair_share(self.most, 0):  # within the share of one command
            return True
        holders = (each.tag for each in (*list(self.waiting.values()), *list(self.late)))
        return has_room(holders, pending.tag, self.most)

    def _try_proxy(self, pending: PendingConnect) -> bool:
        """Connects a caller to the proxy from the loop; False if the thread must do it."""
        # If some programs keep their connects from arriving, the loop would wait for each of them.
        if self.is_gone or self.late or not self.writable.poll(0):
            return False
        accepted = pending.accept(AT_ONCE)
        if accepted:
            self._join_proxy(pending, *accepted)
        return accepted is not None

    # The thread.

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))
        held = capabilities.capget()
        raised_capabilities = held.effective | 1 << capabilities.CAP_NET_BIND_SERVICE
        capabilities.capset(capabilities.Sets(raised_capabilities, held.permitted, 0))
        alarm: AbstractContextManager[None] = nullcontext()
        try:
            alarm = Alarm(WAKING, watchdog.MOMENT)
        except OSError:  # without a timer any program could block the thread, so every connect is denied
            self.is_gone = True
        self.poll = select.poll()
        self.poll.register(self.bell, select.POLLIN)
        self.poll.register(self.gate, select.POLLIN)
        while True:
            # One idle check comes before a long sleep: a program that has connected often does so again.
            found = self.poll.poll(LOOK * 1000 if self.is_watching else None)
            self.is_watching = bool(found)
            if self.waiting or self.late:  # checked after `is_watching` is set, see `_try_ask`
                self.is_watching = True
            with alarm:
                for descriptor, _ in found:
                    if descriptor == self.bell:
                        os.eventfd_read(self.bell)
                        self._take_new()
                    elif descriptor == self.gate.fileno():
                        self._read_answer()
                self._check_pending()

    def _take_new(self) -> None:
        with suppress(Empty):
            while True:
                pending = self.handed_over.get_nowait()
                try:
                    self._begin(pending)
                except OSError as error:
                    self._refuse(pending, error.errno or errno.ECONNREFUSED, "it could not be passed on")

    def _begin(self, pending: PendingConnect) -> None:
        if self.is_gone:
            return self._refuse(pending, errno.ECONNREFUSED, GONE)
        if not self._has_room_for(pending):
            why = f"{self._count()} connections are waiting already"
            return self._refuse(pending, errno.EAGAIN, why, code=ViolationCode.BUSY)
        if pending.to_proxy:
            return self._accept(pending, partial(self._join_proxy, pending))
        number = next(self.numbers)
        self.waiting[number] = pending
        return self._send(_open_request(number, pending))

    def _join_proxy(self, pending: PendingConnect, error: int, ours: socket.socket | None) -> None:
        if ours:
            self._send(GateRequest(PROXY, tag=pending.tag), ours)
            ours.close()
        pending.close()
        pending.caller.refuse(error)

    def _send(self, request: GateRequest, sock: socket.socket | None = None) -> None:
        try:
            socket.send_fds(self.gate, [request.encoded()], [sock.fileno()] if sock else [])
        except OSError:
            return  # the thread finds out when it reads

    def _read_answer(self) -> None:
        try:
            data = self.gate.recv(LONGEST)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_gone = True
            self.poll.unregister(self.gate)
            for number in list(self.waiting):
                self._refuse(self.waiting.pop(number), errno.ECONNREFUSED, GONE)
            return
        answer = parse_answer(data)
        pending = self.waiting.pop(answer.number, None)
        if pending:
            self._settle(pending, answer)

    def _settle(self, pending: PendingConnect, answer: GateAnswer) -> None:
        if answer.errno:
            return self._refuse(pending, answer.errno, answer.message, answer)
        join = partial(self._join, pending, answer.number)
        return join(0, pending.ours) if pending.ours else self._accept(pending, join)

    def _join(self, pending: PendingConnect, number: int, error: int, ours: socket.socket | None) -> None:
        if ours:
            self._send(GateRequest(JOIN, number), ours)
        else:
            self._send(GateRequest(DROP, number))
        is_connected = pending.ours is not None
        if ours:
            ours.close()
        pending.close()
        if not is_connected:
            pending.caller.refuse(error)

    def _refuse(
        self,
        pending: PendingConnect,
        error: int,
        why: str,
        answer: GateAnswer | None = None,
        code: ViolationCode = ViolationCode.UNREACHABLE,
    ) -> None:
        peer = pending.peer
        host = (answer.host if answer else "") or pending.host
        details = answer or GateAnswer(0, code=code)
        rule = NameRule(details.rule, why, code=ViolationCode(details.code))
        denial = Denial(details.answered, details.asked_at)
        target = f"[{host}]:{peer.port}" if ":" in host else f"{host}:{peer.port}"
        tag, program = pending.caller.identify()
        pid = pending.caller.pid
        self.records.add(tag, "connect", target, rule, program, pid, denial, details.remedy)
        is_connected = pending.ours is not None
        if pending.ours:
            pending.ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.late.pop(pending, None)
        pending.close()
        if not is_connected:
            pending.caller.refuse(error)

    def _accept(self, pending: PendingConnect, next_step: OnConnected) -> None:
        accepted = pending.accept(AT_ONCE)
        if accepted:
            self.late.pop(pending, None)
            next_step(*accepted)
        else:
            self.late[pending] = next_step, time.monotonic() + PATIENCE

    def _check_pending(self) -> None:
        now = time.monotonic()
        for pending, (next_step, end) in list(self.late.items()):
            accepted = pending.accept(0) or ((errno.ECONNREFUSED, None) if end <= now else None)
            if accepted:
                del self.late[pending]
                next_step(*accepted)
        for number, pending in list(self.waiting.items()):
            if pending in self.late:
                continue
            if pending.is_abandoned():
                # The gate reports this one: it knows the name that was wanted.
                self._send(GateRequest(DROP, number))
                self.waiting.pop(number).close()
                if not pending.ours:
                    pending.caller.refuse(errno.EINTR)
            elif pending.ours:
                continue
            elif pending.deadline is not None and pending.deadline <= now:
                self._accept(pending, partial(self._connect_early, pending, number))

    def _connect_early(
        self, pending: PendingConnect, number: int, error: int, ours: socket.socket | None
    ) -> None:
        """Connects a caller that does not want to wait for the answer."""
        pending.ours = ours
        pending.sock.close()
        if not ours:
            self._send(GateRequest(DROP, number))
            self.waiting.pop(number).close()
        pending.caller.refuse(error or errno.EINPROGRESS)


def _open_request(number: int, pending: PendingConnect) -> GateRequest:
    return GateRequest(OPEN, number, pending.tag, pending.peer.port, pending.host)
