"""Connections that leave the pen: the gate is asked, and the caller's own socket is joined to its answer.

A program connects to an address; we have the gate open a way to what it stands for; then a listener of ours
at that very address takes the caller's connection (`meeting`), and the gate gets our side of it. So the
program keeps its socket, with its options and epoll registrations, and getpeername tells what it asked for.

INVARIANT: what the gate gets is the caller's connection: its address is the one the caller's socket has. No
way is joined that the gate has not opened, and without the gate every connect is refused.

The life of a connect (`Carried`), by where it is kept:

| kept in | what it waits for | then |
|---|---|---|
| `handed_over` | the thread, which was rung for | the gate is asked; one to the proxy meets us at once |
| `waiting` | the gate's answer | yes: it meets us, and is joined; no: it is refused |
| `waiting`, and has `ours` | the same, but its caller has gone on: connected, to us | joined, or reset |
| `late` | its own connection, which has not come to the meeting | as it was to be; refused after `PATIENCE` |

Who is late may be in `waiting` as well: it meets us to go on, and the answer may come before it does.

Two threads do this. Who answers the calls (`connect`) does what need not wait, and hands over the rest; all
that comes later is the thread's (`_serve`). Both put callers into `waiting`, and whoever takes one out of it
answers it. Of the rest, who answers the calls only looks: at `late`, `is_gone` and `is_watching`.

Facts that shape it:
- A question may wait for a person. Who waits in connect() can wait; who said not to block gets a connection
  after `MOMENT`, and if the answer is no, it is reset.
- To wake a thread takes longer than to lead a caller to the proxy. So that is done by who answers the calls,
  and what is not done in a moment is left to the thread, which has the power to listen at low ports.
- A program can keep its own connection from coming about (`meeting`). So nobody is waited for, here either:
  who is late is looked after as those are who wait for an answer.
- A caller that is killed says nothing, and one that handles ctrl-C goes on waiting: while some wait, we look.
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
from pinfold.kernel.alarm import Alarm
from pinfold.model.codes import ViolationCode
from pinfold.model.fair_share import fair_share, has_room
from pinfold.model.gate_protocol import DROP, JOIN, LONGEST, NAMES, OPEN, PROXY, Answer, Wish, parse_answer
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.protocol.warden import Denial
from pinfold.sandbox.linux.warden import watchdog
from pinfold.sandbox.linux.warden.loopback_accept import Meeting, is_nonblocking, send_timeout
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.socket_address import Peer
from pinfold.sandbox.linux.warden.violations import Records

MOMENT = 0.05
"""Seconds that a caller who does not block waits for a decision."""
LOOK = 0.05
"""Seconds between two looks at whether callers are still there."""
AT_ONCE, PATIENCE = 0.005, 1.0
"""Seconds in which a connection over loopback is there as a rule, and in which it has to be."""
MOST = 512
"""How many may wait at a time, where there are descriptors enough; who comes then hears EAGAIN."""
EACH = 4
"""One of so many descriptors is a caller that may wait: each takes two, and other calls need some."""
WAKING = signal.SIGUSR1
"""Ends what the thread waits in; SIGALRM is for who answers the calls."""
GONE = "the gate is gone, so nothing gets out; start a new session"
HUNG_UP = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_RESET = struct.pack("ii", 1, 0)


Then = Callable[[int, socket.socket | None], None]
"""What is to be done with what a connect says, and with our side of it."""


class Carried:
    """One connect that waits."""

    def __init__(
        self, caller: Caller, sock: int, address: bytes, peer: Peer, *, to_proxy: bool, lent: str = ""
    ) -> None:
        """Takes the descriptor. To the proxy all may connect: it hears what is wanted and decides.

        `lent` is the host that a lent port of loopback stands for.
        """
        self.caller = caller
        self.to_proxy = to_proxy
        self.sock = socket.socket(fileno=sock)
        self.address = address
        self.peer = peer
        self.host = lent or peer.host
        """Whom the gate is asked for."""
        self.tag = caller.tag() if to_proxy else caller.who()[0]
        """Who waits for an answer may be gone by then: who it was is read before."""
        self.deadline: float | None = None
        if not to_proxy:
            patience = MOMENT if is_nonblocking(self.sock) else send_timeout(self.sock)
            self.deadline = time.monotonic() + patience if patience > 0 else None
        self.meeting: Meeting | None = None
        """Where the caller is to meet us, once it was tried."""
        self.ours: socket.socket | None = None
        """Our side, once the caller was told to go on although there is no answer yet."""

    def meet(self, seconds: float) -> tuple[int, socket.socket | None] | None:
        """Connects the caller's socket to a listener of ours: what its connect says, and our side; None if it
        takes longer."""
        if not self.caller.is_waiting():
            return errno.EINTR, None
        try:
            self.meeting = self.meeting or Meeting(self.sock, self.address, self.peer)
            return self.meeting.meet(seconds)
        except OSError:  # no address to listen at, or no descriptor left
            return errno.ENETUNREACH, None

    def is_left(self) -> bool:
        """Whether nobody waits for an answer any more."""
        if self.ours is None:
            return not self.caller.is_waiting() or self.caller.is_interrupted()
        poll = select.poll()
        poll.register(self.ours, HUNG_UP)
        return bool(poll.poll(0))

    def close(self) -> None:
        self.sock.close()
        if self.meeting:
            self.meeting.close()
        if self.ours:
            self.ours.close()


class Carrying:
    """Its thread starts with the first connect."""

    def __init__(self, gate: socket.socket, records: Records, lent: dict[int, str]) -> None:
        self.gate = gate
        self.records = records
        self.lent = lent
        """Ports of loopback that mean the machine's, and by which name each is asked for."""
        self.handed_over: SimpleQueue[Carried] = SimpleQueue()
        """To the thread; `bell` rings for it."""
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.started = False
        self.is_watching = False
        """Whether the thread looks after those who wait without being told of one more."""
        self.waiting: dict[int, Carried] = {}
        """Whom the gate was asked about, by the number of the question."""
        self.late: dict[Carried, tuple[Then, float]] = {}
        """Who has not come to the meeting yet: what is to be done then, and until when."""
        self.room = select.poll()
        self.room.register(gate, select.POLLOUT)
        self.numbers = count(1)
        self.is_gone = False
        self.most = min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // EACH)
        watchdog.prepare(WAKING)

    def connect(self, carried: Carried) -> None:
        """Answers at once where nobody has to be waited for, else later, from the thread."""
        if not self.started:
            carried.caller.turns.rest()
            start_new_thread(self._serve, ())
            self.started = True
        if not (self._has_led_to_proxy(carried) if carried.to_proxy else self._has_asked(carried)):
            self.handed_over.put(carried)
            os.eventfd_write(self.bell, 1)

    def ask_names(self, tag: int, descriptor: int) -> None:
        """A socket of this command is about to ask for names: the gate hears of it before it hears any."""
        with socket.socket(fileno=os.dup(descriptor)) as sock, suppress(OSError):
            port = sock.getsockname()[1]
            self.gate.send(Wish(NAMES, tag=tag, port=port).encoded(), socket.MSG_DONTWAIT)

    def _has_asked(self, carried: Carried) -> bool:
        """Asks the gate from here, if the thread need not do anything before the answer: waking it takes
        longer than that. INVARIANT: we do not wait here, and a caller is known to the thread before its
        question is to the gate."""
        if not self.is_watching or self.is_gone or not self._has_room_for(carried):
            return False
        number = next(self.numbers)
        self.waiting[number] = carried
        try:
            self.gate.send(_question(number, carried).encoded(), socket.MSG_DONTWAIT)
        except OSError:
            return self.waiting.pop(number, None) is None  # if it is not there, the thread has refused it
        if not self.is_watching:  # it went to sleep meanwhile, and may not have seen this one
            os.eventfd_write(self.bell, 1)
        return True

    def _count(self) -> int:
        return len(self.waiting) + len(self.late)

    def _has_room_for(self, carried: Carried) -> bool:
        if self._count() < fair_share(self.most, 0):  # nobody has more than the share of one
            return True
        holders = (each.tag for each in (*list(self.waiting.values()), *list(self.late)))
        return has_room(holders, carried.tag, self.most)

    def _has_led_to_proxy(self, carried: Carried) -> bool:
        """The same for a caller of the proxy's, whom the gate need not be asked about."""
        # Where some keep their connects from coming about, who answers the calls would wait for each of them.
        if self.is_gone or self.late or not self.room.poll(0):
            return False
        met = carried.meet(AT_ONCE)
        if met:
            self._lead_to_proxy(carried, *met)
        return met is not None

    # The thread

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))
        held = capabilities.capget()
        powers = held.effective | 1 << capabilities.CAP_NET_BIND_SERVICE
        capabilities.capset(capabilities.Sets(powers, held.permitted, 0))
        alarm: AbstractContextManager[None] = nullcontext()
        try:
            alarm = Alarm(WAKING, watchdog.MOMENT)
        except OSError:  # without it whoever wants to could keep us: nobody gets out
            self.is_gone = True
        self.poll = select.poll()
        self.poll.register(self.bell, select.POLLIN)
        self.poll.register(self.gate, select.POLLIN)
        while True:
            # One look without anybody comes before a long sleep: who has connected will do so again.
            found = self.poll.poll(LOOK * 1000 if self.is_watching else None)
            self.is_watching = bool(found)
            if self.waiting or self.late:  # looked at after that was said, see `_has_asked`
                self.is_watching = True
            with alarm:
                for descriptor, _ in found:
                    if descriptor == self.bell:
                        os.eventfd_read(self.bell)
                        self._take()
                    elif descriptor == self.gate.fileno():
                        self._hear()
                self._look()

    def _take(self) -> None:
        with suppress(Empty):
            while True:
                carried = self.handed_over.get_nowait()
                try:
                    self._begin(carried)
                except OSError as error:
                    self._refuse(carried, error.errno or errno.ECONNREFUSED, "it could not be carried")

    def _begin(self, carried: Carried) -> None:
        if self.is_gone:
            return self._refuse(carried, errno.ECONNREFUSED, GONE)
        if not self._has_room_for(carried):
            said = f"{self._count()} connections wait already"
            return self._refuse(carried, errno.EAGAIN, said, code=ViolationCode.BUSY)
        if carried.to_proxy:
            return self._meet(carried, partial(self._lead_to_proxy, carried))
        number = next(self.numbers)
        self.waiting[number] = carried
        return self._send(_question(number, carried))

    def _lead_to_proxy(self, carried: Carried, error: int, ours: socket.socket | None) -> None:
        if ours:
            self._send(Wish(PROXY, tag=carried.tag), ours)
            ours.close()
        carried.close()
        carried.caller.refuse(error)

    def _send(self, wish: Wish, sock: socket.socket | None = None) -> None:
        try:
            socket.send_fds(self.gate, [wish.encoded()], [sock.fileno()] if sock else [])
        except OSError:
            return  # the reading side finds out

    def _hear(self) -> None:
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
        carried = self.waiting.pop(answer.number, None)
        if carried:
            self._settle(carried, answer)

    def _settle(self, carried: Carried, answer: Answer) -> None:
        if answer.errno:
            return self._refuse(carried, answer.errno, answer.message, answer)
        join = partial(self._join, carried, answer.number)
        return join(0, carried.ours) if carried.ours else self._meet(carried, join)

    def _join(self, carried: Carried, number: int, error: int, ours: socket.socket | None) -> None:
        if ours:
            self._send(Wish(JOIN, number), ours)
        else:
            self._send(Wish(DROP, number))
        has_gone_on = carried.ours is not None
        if ours:
            ours.close()
        carried.close()
        if not has_gone_on:
            carried.caller.refuse(error)

    def _refuse(
        self,
        carried: Carried,
        error: int,
        why: str,
        answer: Answer | None = None,
        code: ViolationCode = ViolationCode.UNREACHABLE,
    ) -> None:
        peer = carried.peer
        host = (answer.host if answer else "") or carried.host
        told = answer or Answer(0, code=code)
        rule = NameRule(told.rule, why, code=ViolationCode(told.code))
        denial = Denial(told.answered, told.asked_at)
        target = f"[{host}]:{peer.port}" if ":" in host else f"{host}:{peer.port}"
        tag, program = carried.caller.who()
        pid = carried.caller.pid
        self.records.add(tag, "connect", target, rule, program, pid, denial, told.remedy)
        has_gone_on = carried.ours is not None
        if carried.ours:
            carried.ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.late.pop(carried, None)
        carried.close()
        if not has_gone_on:
            carried.caller.refuse(error)

    def _meet(self, carried: Carried, then: Then) -> None:
        met = carried.meet(AT_ONCE)
        if met:
            self.late.pop(carried, None)
            then(*met)
        else:
            self.late[carried] = then, time.monotonic() + PATIENCE

    def _look(self) -> None:
        now = time.monotonic()
        for carried, (then, end) in list(self.late.items()):
            met = carried.meet(0) or ((errno.ECONNREFUSED, None) if end <= now else None)
            if met:
                del self.late[carried]
                then(*met)
        for number, carried in list(self.waiting.items()):
            if carried in self.late:
                continue
            if carried.is_left():
                # Of this the gate tells: it knows the name that was wanted.
                self._send(Wish(DROP, number))
                self.waiting.pop(number).close()
                if not carried.ours:
                    carried.caller.refuse(errno.EINTR)
            elif carried.ours:
                continue
            elif carried.deadline is not None and carried.deadline <= now:
                self._meet(carried, partial(self._go_on, carried, number))

    def _go_on(self, carried: Carried, number: int, error: int, ours: socket.socket | None) -> None:
        """Who would not wait for an answer has a connection meanwhile."""
        carried.ours = ours
        carried.sock.close()
        if not ours:
            self._send(Wish(DROP, number))
            self.waiting.pop(number).close()
        carried.caller.refuse(error or errno.EINPROGRESS)


def _question(number: int, carried: Carried) -> Wish:
    return Wish(OPEN, number, carried.tag, carried.peer.port, carried.host)
