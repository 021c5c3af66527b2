"""Which unix sockets belong to this pen: only its own commands may connect to them.

A socket carries descriptors (SCM_RIGHTS), and a descriptor keeps the mounts of the pen that opened it. So the
commands of one pen must never connect to a socket of another.

Facts about sockets with a path:
- A socket's file may lie in the workspace, next to sockets of the host. Names prove nothing, since files can
  be moved. The inode proves it as long as it stays open: once closed, its number may be reused.
- So the warden of the pen that bound a socket keeps its inode open while it counts.
- The session's other wardens tell their callers why they are denied. They see the inode in a directory that
  all wardens share and no command can reach: a file named after the inode, locked by the warden that holds
  it. The kernel releases the lock with its owner's last descriptor, so what a dead warden left does not
  count.
- A closed socket never returns to its inode, so the inode need not be held any more.

Facts about abstract names (net/unix/af_unix.c):
- Abstract names belong to the network namespace, which all pens of a session share. A name that one socket
  gives up can be another pen's a moment later, so no check of the present owner proves which socket a connect
  will reach. So a name belongs to the first pen that binds it, as long as that pen's warden keeps it. No
  other pen can bind it meanwhile.
- A name counts for one type of socket: a datagram socket does not conflict with a stream. No command can make
  datagram sockets. So a warden holds a name by a datagram socket that is bound to a digest of the name. The
  kernel releases it with the warden.
- The kernel chooses a name of five hexadecimal digits for a socket that binds none, or that connects and
  wants credentials (SO_PASSCRED). The warden does not see the second case. So no pen owns such names: the
  warden chooses longer ones itself, and refuses to bind these.
"""

import errno
import fcntl
import os
import re
import resource
import socket
from _blake2 import blake2b  # not hashlib: it loads OpenSSL, a tenth of a keeper's start
from collections.abc import Callable

from pinfold.kernel.sockets import bind, connect
from pinfold.sandbox.linux.warden.socket_address import abstract_address, unix_address

InodeKey = tuple[int, int]
FEW = 64
"""Up to this many, the closed or unused ones among them are not looked for."""


def identity_of(descriptor: int) -> InodeKey:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class BoundSockets:
    """The sockets that commands of this pen have bound to paths."""

    def __init__(self, directory: int, descriptors: int) -> None:
        self.directory = directory
        """The directory that the session's wardens share."""
        self.descriptors = descriptors
        """Our own /proc/self/fd."""
        self.held: dict[InodeKey, tuple[int, int]] = {}
        """The descriptors of the inode and of its locked file."""
        self.enough = FEW
        self.most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
        """How many count at a time. Each takes two descriptors, and other calls need some too."""

    def is_full(self) -> bool:
        if len(self.held) >= self.most:
            self._let_go_of_the_closed()
        return len(self.held) >= self.most

    def add(self, inode: int) -> None:
        """From now on this inode counts. Takes ownership of the O_PATH descriptor."""
        if len(self.held) >= self.enough:
            self._let_go_of_the_closed()
        identity = identity_of(inode)
        try:
            locked = os.open(
                _name(identity), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self.directory
            )
        except OSError:
            os.close(inode)
            raise
        # Waits at most for a warden that asks about what a dead warden left.
        fcntl.flock(locked, fcntl.LOCK_EX)
        self.held[identity] = (inode, locked)

    def has(self, identity: InodeKey) -> bool:
        return identity in self.held

    def is_held_by_another(self, identity: InodeKey) -> bool:
        if identity in self.held:
            return False
        try:
            file = os.open(_name(identity), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.directory)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def _let_go_of_the_closed(self) -> None:
        os.fchdir(self.descriptors)
        for identity, (inode, locked) in list(self.held.items()):
            if not is_alive(inode):
                del self.held[identity]
                os.unlink(_name(identity), dir_fd=self.directory)
                os.close(locked)
                os.close(inode)
        self.enough = max(FEW, 2 * len(self.held))


def is_alive(inode: int) -> bool:
    """Whether a socket is still bound to this inode. The socket notices nothing.

    Preconditions: the working directory is our own /proc/self/fd.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        return connect(probe.fileno(), unix_address(b"%d" % inode)) != errno.ECONNREFUSED


def _name(identity: InodeKey) -> str:
    return f"{identity[0]:x}-{identity[1]:x}"


CHOSEN_BY_THE_KERNEL = re.compile(rb"\0[0-9a-f]{5}")
HELD_AS = b"\0pinfold:"
STREAMS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
MOST_NAMES = 4096
"""How many abstract names one pen may have."""
TRIES = 8


class AbstractNames:
    """The abstract names that belong to this pen."""

    def __init__(self, is_waited_for: Callable[[bytes], bool]) -> None:
        """`is_waited_for`: whether a connect to the name is waiting, which will look for it anew."""
        self.is_waited_for = is_waited_for
        self.held: dict[bytes, socket.socket] = {}
        self.enough = FEW

    def has(self, name: bytes) -> bool:
        return name in self.held

    def is_held_by_another(self, name: bytes) -> bool:
        if name in self.held:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            return bind(probe.fileno(), _held_as(name)) == errno.EADDRINUSE

    def bind(self, caller: int, name: bytes) -> int:
        """Binds the caller's socket to a name, or to one that we choose if that is empty: 0 or an errno."""
        if name:
            return self._bind(caller, name)
        for _ in range(TRIES):
            error = self._bind(caller, b"\0" + os.urandom(8).hex().encode())
            if error != errno.EADDRINUSE:
                break
        # A socket that has a name already keeps it, and the kernel calls that success.
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
        if len(self.held) >= MOST_NAMES:
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
    """Whether a socket of this kind has the name. No other pen can bind it meanwhile: the name is ours."""
    with socket.socket(socket.AF_UNIX, kind) as probe:
        return bind(probe.fileno(), abstract_address(name)) == errno.EADDRINUSE


def _held_as(name: bytes) -> bytes:
    return abstract_address(HELD_AS + blake2b(name, digest_size=16).hexdigest().encode())
