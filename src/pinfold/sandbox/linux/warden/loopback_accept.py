"""Where a caller's socket meets ours: a listener at the very address that it connects to.

Facts that shape it:
- Every address is local to the session's network (`outlet`), so a listener can be bound to it. It is there
  for the few microseconds of one connect; who else comes by then is turned away. A port below 1024 asks for
  CAP_NET_BIND_SERVICE, which is a thread's own.
- IPv6 binds to addresses of an interface only, unless it is told otherwise (IPV6_FREEBIND, Linux 4.15).
- A program with a listener of its own on that port, for all addresses, has it taken: then ours has another
  port, and getpeername tells that. The other way round, while such connections last only a program that
  says SO_REUSEADDR, as servers do, can bind their port.
- Over loopback a connect is done as soon as the listener is there; one that does not block answers
  EINPROGRESS all the same, and so would the kernel.
- A program can make its own connect wait, by an option that drops the answer (IP_MINTTL), and no option that
  we would set keeps it from that: its other threads can set it anew. A signal ends the wait; the connection
  goes on by itself.
"""

import errno
import fcntl
import os
import select
import socket
import struct
import time

from pinfold.kernel.sockets import connect
from pinfold.sandbox.linux.warden.socket_address import AF_INET6, Peer, with_port

BACKLOG = 128
_TIMEVAL = struct.Struct("@ll")
_IPV6_FREEBIND = 78


class Meeting:
    """One caller's. INVARIANT: the listener is there no longer than it is needed, since whoever else connects
    to its address would come to it.

    Preconditions: a timer stands that ends what this thread waits in (`moment`, `kernel.alarm`)."""

    def __init__(self, sock: socket.socket, address: bytes, peer: Peer) -> None:
        """Raises OSError if there can be no listener."""
        self._sock, self._address = sock, address
        self._said: int | None = None
        family = socket.AF_INET6 if peer.family == AF_INET6 else socket.AF_INET
        kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._listener = socket.socket(family, kind)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            self._listener.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
        try:
            self._listen(peer.host, peer.port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            self._listen(peer.host, 0)
            self._address = with_port(address, self._listener.getsockname()[1])

    def _listen(self, host: str, port: int) -> None:
        self._listener.bind((host, port))
        self._listener.listen(BACKLOG)

    def meet(self, seconds: float) -> tuple[int, socket.socket | None] | None:
        """What the caller's connect says, and our side of it if there is one; None if nobody has come yet,
        who may come later."""
        if self._said is None:
            said = connect(self._sock.fileno(), self._address)
            if said not in (0, errno.EINPROGRESS, errno.EINTR):
                self.close()
                return said, None
            self._said = errno.EINPROGRESS if said and is_nonblocking(self._sock) else 0
        ours = _accept(self._listener, _name(self._sock.getsockname()), seconds)
        if ours is None:
            return None
        self.close()
        return self._said, ours

    def close(self) -> None:
        self._listener.close()


def _accept(listener: socket.socket, caller: tuple[str, int], seconds: float) -> socket.socket | None:
    """The caller's connection, and no other's. As a rule it is there already."""
    deadline: float | None = None
    while True:
        try:
            sock, peer = listener.accept()
        except BlockingIOError:
            deadline = deadline or time.monotonic() + seconds
            if not _waits(listener, deadline - time.monotonic()):
                return None
            continue
        if _name(peer) == caller:
            return sock
        sock.close()


def _waits(listener: socket.socket, seconds: float) -> bool:
    """Whether somebody comes by then."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return seconds > 0 and bool(poll.poll(seconds * 1000))


def _name(address: tuple[str, int]) -> tuple[str, int]:
    """An address in one spelling, whichever family's socket told it."""
    return address[0].removeprefix("::ffff:"), address[1]


def is_nonblocking(sock: socket.socket) -> bool:
    return bool(fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK)


def send_timeout(sock: socket.socket) -> float:
    """How long connect may wait, if its program has said so (SO_SNDTIMEO)."""
    said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size)
    seconds, microseconds = _TIMEVAL.unpack(said)
    return float(seconds + microseconds / 1e6)
