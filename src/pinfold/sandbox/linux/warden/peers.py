"""The wardens of the user's other pens: what one has made, and all must protect, they mount read-only too.

Pens may share their roots, of one session or of several that an agent has at a time. A configuration that is
born in one (`git`) would be an open file in the others until their hosts' next walk. So its warden tells the
others before anybody can search the directory, and waits until each has it mounted. Pens that are being built
by then are waited for (`presence`), and told; who begins to build one later finds it there.

Facts that shape it:
- A message brings its sender's uid, whatever the sender says (SCM_CREDENTIALS). Nobody but the user may have
  something mounted here.
- Two who have something to tell each other would wait for ever: so who waits goes on answering.
- One that makes no progress, as if it were stopped, answers nobody: then nothing is born.
- A socket has room for some ten messages (net.unix.max_dgram_qlen), and who answers waits for no more: so
  only as many are asked at a time as can answer at once.

Accepted: the same file at another path, as where a disk is mounted twice, is not known to be the same.
"""

import _socket
import errno
import os
import select
import struct
from _thread import RLock
from contextlib import suppress
from time import monotonic

from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_SYMLINKS, openat2
from pinfold.sandbox.linux.protocol.pen_registry import (
    BUILDER,
    WARDEN,
    fresh_socket,
    list_of_names,
    present,
    take_name,
)
from pinfold.sandbox.linux.warden import late_mounts

PATIENCE = 5.0
"""Seconds, after which nothing is born: nobody inside can search its directory meanwhile. Longer than a pen
that makes no progress is being built."""
STEP = 0.001
"""Seconds between two looks at who is there."""
PROTECT, DONE = b"p", b"d"
OCCASION = 8
"""Random bytes that tell an answer from one that comes late."""
AT_ONCE = 8
"""How many are asked at a time."""
LARGEST = 1 + OCCASION + 4096
OUT_OF_REACH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
"""Why a warden does not find a file, which has every power over them: then nobody in its pen does."""
_CREDENTIALS = struct.Struct("=iII")
ROOM = _socket.CMSG_SPACE(_CREDENTIALS.size)


class Neighbours:
    """Preconditions: made before a session's network is joined; `join` comes before the first command."""

    def __init__(self) -> None:
        self.socket = fresh_socket()
        self.names = list_of_names()
        self.own = b""
        self.lock = RLock()
        """Who answers calls asks the others, and another thread answers them meanwhile (`mount_guard`)."""
        self.occasion = b""
        self.done: set[bytes] = set()
        """Who has done what we ask for on that occasion."""
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)

    @property
    def descriptors(self) -> set[int]:
        return {self.socket.fileno(), self.names}

    def join(self) -> None:
        """From here on the others tell us, and wait for our answer."""
        self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        self.own = take_name(self.socket, WARDEN)

    def answer(self) -> None:
        """Protects what the others have told by now, and hears who has done what we asked for."""
        with self.lock:
            self._hear()

    def all_protect(self, path: str) -> bool:
        """Whether it is read-only in every other pen by now.

        Preconditions: it is there, and nobody inside finds it yet.
        """
        with self.lock:
            self.occasion, self.done = os.urandom(OCCASION), {self.own}
        message = PROTECT + self.occasion + os.fsencode(path)
        asked: set[bytes] = set()
        end = monotonic() + PATIENCE
        being_built = present(self.names, BUILDER)
        while True:
            # First: who is built by now is among the others.
            being_built &= present(self.names, BUILDER)
            others = present(self.names, WARDEN)
            done = {*self.done}
            if not being_built and others <= done:
                return True
            asked = (asked & others) - done
            for other in [*(others - done - asked)][: AT_ONCE - len(asked)]:
                if self._send(other, message):
                    asked.add(other)
            if monotonic() > end:
                return False
            self.poll.poll(STEP * 1000)
            self.answer()

    def _hear(self) -> None:
        """Preconditions: the lock is held."""
        while True:
            try:
                message, credentials, _, sender = self.socket.recvmsg(LARGEST, ROOM)
            except OSError:
                return
            if _sender_of(credentials) != os.geteuid() or not sender:
                continue
            kind, about, path = message[:1], message[1 : 1 + OCCASION], message[1 + OCCASION :]
            name = b"@" + sender[1:]
            if kind == DONE and about == self.occasion:
                self.done.add(name)
            elif kind == PROTECT and _protect(path):
                self._send(name, DONE + about)

    def _send(self, name: bytes, message: bytes) -> bool:
        """False if it is gone, or has no room for now."""
        with suppress(OSError):
            self.socket.sendto(message, b"\0" + name[1:])
            return True
        return False


def _sender_of(credentials: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in credentials:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(data)[1])
    return -1


def _protect(path: bytes) -> bool:
    """Whether nobody in this pen can write it any more."""
    with late_mounts.powers(late_mounts.POWERS):
        try:
            thing = openat2(AT_FDCWD, os.fsdecode(path), os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)
        except OSError as error:
            return error.errno in OUT_OF_REACH
        try:
            if not late_mounts.is_read_only(thing):
                late_mounts.protect(thing)
        except OSError:
            return False
        finally:
            os.close(thing)
    return True
