"""Abstract names of unix sockets: which of them belong to this pen, whose commands alone may connect to them.

Abstract names belong to the network namespace, which all pens of a session share, and a name that a socket
gives up can be another pen's a moment later: no look at who has it now proves who is connected to. So a name
belongs to the first pen that binds it, for as long as its warden wants it. No other pen binds it meanwhile.

Facts that shape it (net/unix/af_unix.c):
- A name counts for one type of socket: a datagram socket takes it from no stream. No command can make
  datagram sockets. So a warden holds a name by a datagram socket that is bound to a digest of the name. The
  kernel lets go of it with the warden.
- The kernel chooses a name, five hexadecimal digits, for a socket that binds none or that connects and wants
  credentials (SO_PASSCRED). The second is not seen here. So nobody owns such a name: the warden chooses
  longer ones, and refuses to bind these.
"""

import errno
import hashlib
import os
import re
import socket
from collections.abc import Callable

from pinfold.kernel.sockets import bind
from pinfold.sandbox.linux.warden.socket_address import abstract_address

CHOSEN_BY_THE_KERNEL = re.compile(rb"\0[0-9a-f]{5}")
HELD_AS = b"\0pinfold:"
STREAMS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
FEW, MOST = 64, 4096
"""Up to here the unused ones are not looked for; and how many names one pen may have."""
TRIES = 8


class AbstractNames:
    def __init__(self, is_waited_for: Callable[[bytes], bool]) -> None:
        """`is_waited_for`: whether a connect to the name is under way, which looks for it anew."""
        self.is_waited_for = is_waited_for
        self.held: dict[bytes, socket.socket] = {}
        self.enough = FEW

    def has(self, name: bytes) -> bool:
        return name in self.held

    def is_held_by_another(self, name: bytes) -> bool:
        if name in self.held:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            return bind(asking.fileno(), _held_as(name)) == errno.EADDRINUSE

    def bind(self, caller: int, name: bytes) -> int:
        """Binds the caller's socket to a name, or to one of our choice if that is empty: 0 or an errno."""
        if name:
            return self._bind(caller, name)
        for _ in range(TRIES):
            error = self._bind(caller, b"\0" + os.urandom(8).hex().encode())
            if error != errno.EADDRINUSE:
                break
        # A socket that has a name already keeps it, and the kernel calls that a success.
        return bind(caller, abstract_address(b"")) if error == errno.EINVAL else error

    def _bind(self, caller: int, name: bytes) -> int:
        was_held = name in self.held
        error = 0 if was_held else self._hold(name)
        if error:
            return error
        error = bind(caller, abstract_address(name))
        if error and not was_held:
            self.held.pop(name).close()
        return error

    def _hold(self, name: bytes) -> int:
        if CHOSEN_BY_THE_KERNEL.fullmatch(name):
            return errno.EADDRINUSE
        if len(self.held) >= self.enough:
            self._let_go_of_the_unused()
        if len(self.held) >= MOST:
            return errno.ENOBUFS
        holding = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        error = bind(holding.fileno(), _held_as(name))
        if error:
            holding.close()
        else:
            self.held[name] = holding
        return error

    def _let_go_of_the_unused(self) -> None:
        for name in list(self.held):
            if not self.is_waited_for(name) and not any(_is_taken(name, kind) for kind in STREAMS):
                self.held.pop(name).close()
        self.enough = max(FEW, 2 * len(self.held))


def _is_taken(name: bytes, kind: int) -> bool:
    """Whether a socket of this kind has it. Nobody else can bind it meanwhile: the name is ours."""
    with socket.socket(socket.AF_UNIX, kind) as asking:
        return bind(asking.fileno(), abstract_address(name)) == errno.EADDRINUSE


def _held_as(name: bytes) -> bytes:
    return abstract_address(HELD_AS + hashlib.blake2b(name, digest_size=16).hexdigest().encode())
