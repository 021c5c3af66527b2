"""Connections that leave the pen: the gate is asked, and the caller's own socket is joined to its answer.

A program connects to an address; we have the gate open a way to what it stands for; then a listener of ours
at that very address takes the caller's connection, and the gate gets our side of it. So the program keeps its
socket, with its options and epoll registrations, and getpeername tells what it asked for.

INVARIANT: what the gate gets is the caller's connection: its address is the one the caller's socket has. No
way is joined that the gate has not opened, and without the gate every connect is refused.

Facts that shape it:
- Every address is local to the session's network (`outlet`), so a listener can be bound to it. It is there
  for the few microseconds of one connect; who else comes by then is turned away. A port below 1024 asks for
  CAP_NET_BIND_SERVICE, which is a thread's own: this thread has it, and the one that binds for callers not.
- A program with a listener of its own on that port, for all addresses, has it taken: then ours has another
  port, and getpeername tells that. The other way round, while such connections last only a program that
  says SO_REUSEADDR, as servers do, can bind their port.
- Over loopback a connect is done as soon as the listener is there; one that does not block answers
  EINPROGRESS all the same, and so would the kernel.
- A question may wait for a person. Who waits in connect() can wait; who said not to block gets a connection
  after `MOMENT`, and if the answer is no, it is reset.
- A caller that is killed says nothing, and one that handles ctrl-C goes on waiting: while some wait, we look.
"""

import errno
import fcntl
import os
import select
import signal
import socket
import struct
import time
from _queue import Empty, SimpleQueue
from _thread import start_new_thread
from contextlib import suppress
from itertools import count

from pinfold.kernel import capabilities
from pinfold.kernel.sockets import connect
from pinfold.model.carrying import DROP, JOIN, LONGEST, NAMES, OPEN, PROXY, Answer, Wish, parse_answer
from pinfold.sandbox.linux.addresses import AF_INET6, Peer, with_port
from pinfold.sandbox.linux.caller import Caller
from pinfold.sandbox.linux.records import Records

MOMENT = 0.05
"""Seconds that a caller who does not block waits for a decision."""
LOOK = 0.05
"""Seconds between two looks at whether callers are still there."""
PATIENCE = 1.0
"""Seconds in which a connection over loopback has to be there."""
MOST = 512
"""How many may wait at a time; who comes then hears EAGAIN."""
BACKLOG = 128
GONE = "the gate is gone, so nothing gets out; start a new session"
_TIMEVAL = struct.Struct("@ll")
_RESET = struct.pack("ii", 1, 0)


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
        self.tag, self.program = caller.who()
        self.deadline = time.monotonic() + _patience(self.sock) if _is_bounded(self.sock) else None
        self.ours: socket.socket | None = None
        """Our side, once the caller was told to go on although there is no answer yet."""

    def close(self) -> None:
        self.sock.close()
        if self.ours:
            self.ours.close()


class Carrying:
    """Its thread starts with the first connect."""

    def __init__(self, gate: socket.socket, records: Records, lent: dict[int, str]) -> None:
        self.gate = gate
        self.records = records
        self.lent = lent
        """Ports of loopback that mean the machine's, and by which name each is asked for."""
        self.asked: SimpleQueue[Carried] = SimpleQueue()
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.started = False
        self.is_watching = False
        """Whether the thread looks after those who wait without being told of one more."""
        self.waiting: dict[int, Carried] = {}
        self.numbers = count(1)
        self.is_gone = False

    def connect(self, carried: Carried) -> None:
        """Answers later, from the thread."""
        if not self.started:
            start_new_thread(self._serve, ())
            self.started = True
        if not self._has_asked(carried):
            self.asked.put(carried)
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
        if carried.to_proxy or not self.is_watching or self.is_gone or len(self.waiting) >= MOST:
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

    # The thread

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))
        held = capabilities.capget()
        powers = held.effective | 1 << capabilities.CAP_NET_BIND_SERVICE
        capabilities.capset(capabilities.Sets(powers, held.permitted, 0))
        self.poll = select.poll()
        self.poll.register(self.bell, select.POLLIN)
        self.poll.register(self.gate, select.POLLIN)
        while True:
            # One look without anybody comes before a long sleep: who has connected will do so again.
            found = self.poll.poll(LOOK * 1000 if self.is_watching else None)
            self.is_watching = bool(found)
            if self.waiting:  # looked at after that was said, see `_has_asked`
                self.is_watching = True
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
                carried = self.asked.get_nowait()
                try:
                    self._begin(carried)
                except OSError as error:
                    self._refuse(carried, error.errno or errno.ECONNREFUSED, "it could not be carried")

    def _begin(self, carried: Carried) -> None:
        if self.is_gone:
            return self._refuse(carried, errno.ECONNREFUSED, GONE)
        if carried.to_proxy:
            return self._lead_to_proxy(carried)
        if len(self.waiting) >= MOST:
            return self._refuse(carried, errno.EAGAIN, f"{MOST} connections wait already")
        number = next(self.numbers)
        self.waiting[number] = carried
        return self._send(_question(number, carried))

    def _lead_to_proxy(self, carried: Carried) -> None:
        error, ours = self._meet(carried)
        if ours:
            self._send(Wish(PROXY, tag=carried.tag), ours)
            ours.close()
        carried.caller.refuse(error)
        return carried.close()

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
        error, ours = (0, carried.ours) if carried.ours else self._meet(carried)
        if ours:
            self._send(Wish(JOIN, answer.number), ours)
        else:
            self._send(Wish(DROP, answer.number))
        if carried.ours is None:
            if ours:
                ours.close()
            carried.caller.refuse(error)
        return carried.close()

    def _refuse(self, carried: Carried, error: int, why: str, answer: Answer | None = None) -> None:
        peer = carried.peer
        host, rule = (answer.host or carried.host, answer.rule) if answer else (carried.host, "")
        target = f"[{host}]:{peer.port}" if ":" in host else f"{host}:{peer.port}"
        self.records.add(
            carried.tag, "connect", target, rule, why, carried.program, carried.caller.pid, grantable=True
        )
        if carried.ours:
            carried.ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        else:
            carried.caller.refuse(error)
        carried.close()

    def _look(self) -> None:
        now = time.monotonic()
        for number, carried in list(self.waiting.items()):
            if carried.ours:
                continue
            if not carried.caller.is_waiting() or carried.caller.is_interrupted():
                self._send(Wish(DROP, number))
                carried.caller.refuse(errno.EINTR)
                self.waiting.pop(number).close()
            elif carried.deadline is not None and carried.deadline <= now:
                error, carried.ours = self._meet(carried)
                carried.caller.refuse(error or errno.EINPROGRESS)
                if not carried.ours:
                    self._send(Wish(DROP, number))
                    self.waiting.pop(number).close()

    def _meet(self, carried: Carried) -> tuple[int, socket.socket | None]:
        """Connects the caller's socket to a listener of ours: what its connect says, and our side."""
        if not carried.caller.is_waiting():
            return errno.EINTR, None
        family = socket.AF_INET6 if carried.peer.family == AF_INET6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            address = carried.address
            try:
                listener.bind((carried.peer.host, carried.peer.port))
                listener.listen(BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    return errno.ENETUNREACH, None
                listener.bind((carried.peer.host, 0))
                listener.listen(BACKLOG)
                address = with_port(address, listener.getsockname()[1])
            said = connect(carried.sock.fileno(), address)
            if said not in (0, errno.EINPROGRESS):
                return said, None
            ours = _accept(listener, _name(carried.sock.getsockname()))
            return (said, ours) if ours else (errno.ECONNREFUSED, None)


def _question(number: int, carried: Carried) -> Wish:
    return Wish(OPEN, number, carried.tag, carried.peer.port, carried.host)


def _accept(listener: socket.socket, caller: tuple[str, int]) -> socket.socket | None:
    """The caller's connection, and no other's."""
    deadline = time.monotonic() + PATIENCE
    while (rest := deadline - time.monotonic()) > 0:
        listener.settimeout(rest)
        try:
            sock, peer = listener.accept()
        except TimeoutError:
            return None
        if _name(peer) == caller:
            return sock
        sock.close()
    return None


def _name(address: tuple[str, int]) -> tuple[str, int]:
    """An address in one spelling, whichever family's socket told it."""
    return address[0].removeprefix("::ffff:"), address[1]


def _is_bounded(sock: socket.socket) -> bool:
    return bool(fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK) or _send_timeout(sock) > 0


def _patience(sock: socket.socket) -> float:
    return MOMENT if fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK else _send_timeout(sock)


def _send_timeout(sock: socket.socket) -> float:
    """How long connect may wait, if its program has said so (SO_SNDTIMEO)."""
    said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size)
    seconds, microseconds = _TIMEVAL.unpack(said)
    return float(seconds + microseconds / 1e6)
