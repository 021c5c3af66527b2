"""Which unix sockets were bound by path in this pen: the ones that its commands may connect to.

A socket carries descriptors (SCM_RIGHTS), and a descriptor keeps the mounts of the pen that opened it. So the
commands of one pen never connect to a socket of another.

Facts that shape it:
- A socket's file may lie in the workspace, next to sockets of the host. Names tell nothing, since they can be
  moved; the inode does, for as long as it is held: once let go, its number may come back as another's.
- So each inode is held open while it counts, by the warden of the pen that bound it.
- The session's other wardens tell their callers why they are refused. They see the inode in a directory that
  all wardens share and no command can reach: a file by the inode's number, locked by the warden that holds
  the inode. The kernel unlocks the file with its owner's last descriptor, so what a dead warden left there
  counts for nothing.
- A socket that is closed never comes back on its inode: then there is nothing more to hold.
"""

import errno
import fcntl
import os
import resource
import socket

from pinfold.kernel.sockets import connect
from pinfold.sandbox.linux.warden.socket_address import unix_address

Identity = tuple[int, int]
FEW = 64
"""Up to here the closed ones among them are not looked for."""


def identity_of(descriptor: int) -> Identity:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class Bound:
    def __init__(self, room: int, descriptors: int) -> None:
        self.room = room
        """The shared directory."""
        self.descriptors = descriptors
        """Our own /proc/self/fd."""
        self.held: dict[Identity, tuple[int, int]] = {}
        """The inode and its locked file, open."""
        self.enough = FEW
        self.most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
        """How many count at a time. Each takes two descriptors, and others want some too."""

    def is_full(self) -> bool:
        if len(self.held) >= self.most:
            self._let_go_of_the_closed()
        return len(self.held) >= self.most

    def add(self, inode: int) -> None:
        """From now on this inode counts. Takes the O_PATH descriptor."""
        if len(self.held) >= self.enough:
            self._let_go_of_the_closed()
        identity = identity_of(inode)
        try:
            locked = os.open(_name(identity), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self.room)
        except OSError:
            os.close(inode)
            raise
        # Waits at most for somebody who asks about what a dead warden left.
        fcntl.flock(locked, fcntl.LOCK_EX)
        self.held[identity] = (inode, locked)

    def has(self, identity: Identity) -> bool:
        return identity in self.held

    def is_held_by_another(self, identity: Identity) -> bool:
        if identity in self.held:
            return False
        try:
            file = os.open(_name(identity), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.room)
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
                os.unlink(_name(identity), dir_fd=self.room)
                os.close(locked)
                os.close(inode)
        self.enough = max(FEW, 2 * len(self.held))


def is_alive(inode: int) -> bool:
    """Whether a socket is still bound to this inode. It hears nothing of the question.

    Preconditions: the working directory is our own /proc/self/fd.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        return connect(asking.fileno(), unix_address(b"%d" % inode)) != errno.ECONNREFUSED


def _name(identity: Identity) -> str:
    return f"{identity[0]:x}-{identity[1]:x}"
