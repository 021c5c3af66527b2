"""Which pens the user has on this machine, of whichever session, and which are being built.

Facts that shape it (unix(7), proc(5); tried on 6.18):
- An abstract name is taken by binding a socket to it, is listed for as long as that is open, and goes with
  its holder, however that ends. So the list of names is the list of those who are there.
- A socket stays in the network that it was made in, whoever uses it from wherever, and so does a list that
  was opened there. Ours are the machine's, which no program of a session sees.
- What a command makes while a pen is built may be missing in that pen's plan, and nobody in it can be told
  yet. So it has a name from before its host looks at the workspace until its warden has one of its own.

Accepted: another user's program may hold such a name, and say nothing to whoever waits for it.
"""

import _socket
import os
from collections.abc import Iterator
from contextlib import contextmanager

WARDEN, BUILDER = b"warden", b"builder"


def _prefix(kind: bytes) -> bytes:
    return b"@pinfold/%d/%s/" % (os.geteuid(), kind)


def fresh_socket() -> _socket.socket:
    """Of the network that this process is in."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)


def take_name(socket: _socket.socket, kind: bytes) -> bytes:
    """The name that this socket is there by from now on."""
    name = _prefix(kind) + os.urandom(8).hex().encode()
    socket.bind(b"\0" + name[1:])
    return name


def list_of_names() -> int:
    """Of the network that this process is in: to be read again and again."""
    return os.open("/proc/net/unix", os.O_RDONLY | os.O_CLOEXEC)


def present(names: int, kind: bytes) -> set[bytes]:
    """Those of a kind, in a list of names."""
    os.lseek(names, 0, os.SEEK_SET)
    with open(names, "rb", closefd=False) as file:
        words = file.read().split()
    prefix = _prefix(kind)
    return {word for word in words if word.startswith(prefix)}


@contextmanager
def building() -> Iterator[None]:
    """A pen is being built meanwhile, by what its host finds from here on."""
    socket = fresh_socket()
    try:
        take_name(socket, BUILDER)
        yield
    finally:
        socket.close()
