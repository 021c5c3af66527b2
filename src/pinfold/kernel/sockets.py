"""Sockets: connect and bind with an address as it lies in memory, and what file a unix socket is bound to.

Facts about these calls (connect(2), bind(2), unix(7), net/unix/af_unix.c, net/ipv4/af_inet.c):
- An address has at most 128 bytes (struct sockaddr_storage); each family judges its own length.
- connect on a socket that blocks waits for room in a unix listener's backlog, or for the other side's answer.
  A handled signal ends the wait with EINTR. A unix connect is then as if never made; a TCP one goes on by
  itself, and a second connect waits for it.
- TCP_INFO begins with the state of a TCP socket; 7 is one that was never connected, or is not any more.
- A unix path is resolved by the caller's root and working directory, a link at its end is followed by connect
  and not by bind. `/proc/self/fd/N` of an O_PATH descriptor connects to that very inode. What getsockname
  answers later is the text that bind was given.
- Each bind of a path makes a new inode, so no two sockets share one; a socket holds its inode until closed.
- SIOCUNIXFILE (4.12) opens the inode that a socket is bound to, O_PATH and close-on-exec, by no name; it asks
  for CAP_NET_ADMIN over the socket's network namespace. ENOENT: the socket is bound to no path.
- connect of a datagram socket to a path shows, without a message to the other side, what is there: EPROTOTYPE
  is a stream or seqpacket, ECONNREFUSED is no socket.

Both calls return an errno, 0 if all went well: they are made for a caller that gets that very number.
Python's own would parse the address, and would wait on after a signal.
"""

import ctypes
import errno
import fcntl
import select
from socket import IPPROTO_TCP, SO_DOMAIN, SO_PROTOCOL, SO_TYPE, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, TCP_INFO

from pinfold.kernel.syscall import libc

LONGEST_ADDRESS = 128
_SIOCUNIXFILE = 0x89E0
_IPPROTO_MPTCP = 262
_TCP_CLOSE = 7

_connect = libc.connect
_bind = libc.bind
for _call in (_connect, _bind):
    _call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    _call.restype = ctypes.c_int

_getsockopt = libc.getsockopt
_getsockopt.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def family(socket: int) -> int:
    """The family a socket was made for; it never changes. -errno if it is no socket."""
    return _option(socket, SOL_SOCKET, SO_DOMAIN)


def is_stream(socket: int) -> bool:
    return _option(socket, SOL_SOCKET, SO_TYPE) == SOCK_STREAM


def is_datagram(socket: int) -> bool:
    """Whether it is one whose connect never waits."""
    return _option(socket, SOL_SOCKET, SO_TYPE) == SOCK_DGRAM


def is_fresh_stream(socket: int, family_: int | None) -> bool:
    """Whether it is a TCP socket of this family that is not connected, connecting or listening."""
    return (
        is_stream(socket)
        and family(socket) == family_
        and _option(socket, SOL_SOCKET, SO_PROTOCOL) in (IPPROTO_TCP, _IPPROTO_MPTCP)
        and _option(socket, IPPROTO_TCP, TCP_INFO, 1) in (_TCP_CLOSE, -errno.EOPNOTSUPP)
    )


def _option(socket: int, level: int, name: int, size: int = 4) -> int:
    value, length = ctypes.c_int(), ctypes.c_uint(size)
    failed = _getsockopt(socket, level, name, ctypes.byref(value), ctypes.byref(length))
    return -ctypes.get_errno() if failed else value.value


def has_failed(socket: int) -> bool:
    """Whether a connect that was not waited for has failed by now; the error stays there for its owner."""
    poll = select.poll()
    poll.register(socket, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def connect(socket: int, address: bytes) -> int:
    """Connects a socket; EINTR if a signal was handled before it was done."""
    return ctypes.get_errno() if _connect(socket, address, len(address)) else 0


def bind(socket: int, address: bytes) -> int:
    return ctypes.get_errno() if _bind(socket, address, len(address)) else 0


def bound_file(socket: int) -> int | None:
    """The inode a unix socket is bound to, as an O_PATH descriptor; None if it has no path."""
    try:
        descriptor: int = fcntl.ioctl(socket, _SIOCUNIXFILE)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTTY, errno.EFAULT):
            return None
        raise
    return descriptor
