"""Accepts a caller's connection: a listener of the warden's, at the very address that the caller connects to.

Facts that shape it:
- Every address is local to the session's network (`keeper.network`), so a listener can be bound to it. It
  exists for the few microseconds of one connect; any other connection that arrives is closed. A port below
  1024 needs CAP_NET_BIND_SERVICE, which is a thread's own.
- IPv6 binds only to addresses of an interface, unless told otherwise (IPV6_FREEBIND, Linux 4.15).
- If a program itself listens on that port for all addresses, the port is taken. Then ours gets another port,
  and getpeername shows it. Conversely, while such connections last, only a program that sets SO_REUSEADDR, as
  servers do, can bind their port.
- Over loopback a connect is done as soon as the listener is there. A non-blocking one still returns
  EINPROGRESS, and so would the kernel.
- A program can make its own connect wait, by an option that drops the reply (IP_MINTTL). No option that we
  could set prevents it: its other threads can set it again. A signal ends the wait; the connection goes on by
  itself.
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


class LoopbackListener:
    """The listener for one caller. INVARIANT: it stays open no longer than needed, since other connections to
    its address would arrive at it.

    Preconditions: a timer runs that ends what this thread waits in (`watchdog`, `kernel.process.Alarm`).
    """

    def __init__(self, sock: socket.socket, address: bytes, peer: Peer) -> None:
        """Raises OSError if there can be no listener."""
        self._sock, self._address = sock, address
        self._result: int | None = None
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

    def accept(self, seconds: float) -> tuple[int, socket.socket | None] | None:
        """The result of the caller's connect, and our side if there is one; None if no connection has come
        yet but may come later."""
        if self._result is None:
            result = connect(self._sock.fileno(), self._address)
            if result not in (0, errno.EINPROGRESS, errno.EINTR):
                self.close()
                return result, None
            self._result = errno.EINPROGRESS if result and is_nonblocking(self._sock) else 0
        ours = _accept(self._listener, _name(self._sock.getsockname()), seconds)
        if ours is None:
            return None
        self.close()
        return self._result, ours

    def close(self) -> None:
        self._listener.close()


def _accept(listener: socket.socket, caller: tuple[str, int], seconds: float) -> socket.socket | None:
    """Accepts the caller's connection and no other's. Normally it is there already."""
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
    """Whether a connection arrives by then."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return seconds > 0 and bool(poll.poll(seconds * 1000))


def _name(address: tuple[str, int]) -> tuple[str, int]:
    """One spelling of an address, whichever family's socket reported it."""
    return address[0].removeprefix("::ffff:"), address[1]


def is_nonblocking(sock: socket.socket) -> bool:
    return bool(fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK)


def send_timeout(sock: socket.socket) -> float:
    """How long connect may wait if the program has set SO_SNDTIMEO; else 0."""
    result = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size)
    seconds, microseconds = _TIMEVAL.unpack(result)
    return float(seconds + microseconds / 1e6)
