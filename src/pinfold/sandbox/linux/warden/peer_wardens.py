"""The wardens of other pens of the user's: what one pen makes and all must protect, they mount read-only too.

Pens may share their roots, within one session or among several sessions of an agent. A configuration that is
made in one pen (`git`) would be writable in the others until their hosts' next scan. So its warden tells the
others that may write there before any process can search the directory, and waits until each has mounted it.
It also waits for pens that are being built by then (`pen_registry`), and tells them. A pen whose building
starts later finds the file.

Facts that shape it:
- The kernel adds the sender's true uid to a message (SCM_CREDENTIALS). Only the user's
  own processes may request a mount here.
- Two wardens with something to tell each other would wait for ever: so a warden that waits goes on answering.
- A warden that makes no progress, such as a stopped one, does not answer: then nothing is made where its pen
  may write.
- A file lies below a directory that one of a pen's writable mounts shows, or that pen cannot write it. The
  directory may have another path there. So a request has a mark of each directory above the file, and the
  warden looks below each of its mounts that has one of these.
- The directories above a project are not all seen in its pen: others take the place of those that are hidden,
  or root's alone. Their marks are found before the pen's mounts are made.
- A host that builds a pen says what its policy opens. Besides, a pen may write in git directories to which
  working trees in its projects lead, and in what its session has of its own, such as /tmp.
- A socket has room for some ten messages (net.unix.max_dgram_qlen), and an answering warden does not wait for
  room. So only as many are asked at a time as can answer at once.

Accepted: where a pen sees only the lower part of what another one may write, at another path (a bind mount
of a subdirectory), the other one is not told.
"""

import _socket
import os
import select
import struct
from _thread import RLock
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from pinfold.sandbox.linux.protocol.pen_registry import (
    BUILDER,
    MARK,
    WARDEN,
    fresh_socket,
    list_of_names,
    marks_above,
    may_write_below,
    present,
    take_name,
)
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.sandbox.linux.warden.writable_mounts import WritableMounts

PATIENCE = 10.0
"""Seconds until the warden gives up; meanwhile no process can search the directory. A host gives up sooner to
build a pen that makes no progress."""
STEP = 0.001
"""Seconds between two looks at which pens there are."""
PROTECT, DONE = b"p", b"d"
REQUEST_ID_BYTES = 8
"""Random bytes of a request; an answer without them is late."""
AT_ONCE = 8
"""The most wardens that are asked at a time."""
LARGEST = 1 + REQUEST_ID_BYTES + 3 * 4096
"""A path of any length, before it a mark for each directory in it."""
IN_GIT_DIRECTORIES = frozenset([".git", "objects", "refs", "logs", "worktrees", "modules"])
"""Names of git directories, and of directories in them that working trees elsewhere write in."""
_CREDENTIALS = struct.Struct("=iII")
CREDENTIALS_SPACE = _socket.CMSG_SPACE(_CREDENTIALS.size)


class PeerWardens:
    """Preconditions: made before a session's network is joined; `join` comes before the first command."""

    def __init__(self) -> None:
        self.socket = fresh_socket()
        self.names = list_of_names()
        self.own_name = b""
        self.mounts = WritableMounts()
        self.above: Mapping[str, list[bytes]] = {}
        """See `join`."""
        self.lock = RLock()
        """The loop asks the others, and another thread answers them meanwhile (`mount_guard`)."""
        self.request_id = b""
        self.done: set[bytes] = set()
        """The wardens that have done what this request asks."""
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)

    @property
    def descriptors(self) -> set[int]:
        return {self.socket.fileno(), self.names}

    def join(self, proc: int, roots: Mapping[str, int], above: Mapping[str, list[bytes]]) -> None:
        """From here on the others tell us about their files and wait for our answer.

        `above`: for each root, marks of the directories that it lies in, the innermost first. The other
        arguments are those of `WritableMounts.hold`.
        """
        self.above = above
        self.mounts.hold(proc, roots)
        self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        self.own_name = take_name(self.socket, WARDEN, self.mounts.marks)

    def answer(self) -> None:
        """Protects what the others have announced by now, and notes which of them have done what we asked."""
        with self.lock:
            self._read_messages()

    def all_protect(self, path: str) -> bool:
        """Whether no other pen can write the file of this real path by now.

        Preconditions: the file exists, and no process inside can find it yet.
        """
        marks = self._marks_above(path)
        # A root that was moved is not found by its path, so the directories above all roots count.
        anywhere = {*marks, *(mark for each in self.above.values() for mark in each)}
        about_all = not self.mounts.own.isdisjoint(marks) or _may_be_shared(path)

        def builders() -> set[bytes]:
            found = present(self.names, BUILDER)
            return found if about_all else {name for name in found if may_write_below(name, anywhere)}

        with self.lock:
            self.request_id, self.done = os.urandom(REQUEST_ID_BYTES), {self.own_name}
        message = PROTECT + self.request_id + b"".join(marks) + os.fsencode(path)
        asked: set[bytes] = set()
        end = monotonic() + PATIENCE
        being_built = builders()
        while True:
            # First: a pen that is built by now is among the others.
            being_built &= builders()
            others = {name for name in present(self.names, WARDEN) if may_write_below(name, anywhere)}
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

    def _marks_above(self, path: str) -> list[bytes]:
        """Marks of the directories that a file lies in, the innermost first: also of those above its root,
        which the pen may not show."""
        root = max((each for each in self.above if path.startswith(f"{each}/")), key=len, default="")
        return [*marks_above(path, root or "/"), *self.above.get(root, ())]

    def _read_messages(self) -> None:
        """Preconditions: the lock is held."""
        while True:
            try:
                message, credentials, _, sender = self.socket.recvmsg(LARGEST, CREDENTIALS_SPACE)
            except OSError:
                return
            if _sender_of(credentials) != os.geteuid() or not sender:
                continue
            kind, about, path = (
                message[:1],
                message[1 : 1 + REQUEST_ID_BYTES],
                message[1 + REQUEST_ID_BYTES :],
            )
            name = b"@" + sender[1:]
            if kind == DONE and about == self.request_id:
                self.done.add(name)
            elif kind == PROTECT and _protect(self.mounts, path):
                self._send(name, DONE + about)

    def _send(self, name: bytes, message: bytes) -> bool:
        """False if the warden is gone or its socket is full."""
        with suppress(OSError):
            self.socket.sendto(message, b"\0" + name[1:])
            return True
        return False


def _may_be_shared(path: str) -> bool:
    """Whether the file may lie in a git directory that a working tree elsewhere uses too."""
    *above, _, _ = path.split("/")
    directory = os.path.dirname(path)
    shared = any(os.path.lexists(f"{directory}/{name}") for name in ("worktrees", "modules"))
    return shared or not IN_GIT_DIRECTORIES.isdisjoint(above)


def _sender_of(credentials: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in credentials:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(data)[1])
    return -1


def _protect(mounts: WritableMounts, asked: bytes) -> bool:
    """Whether no process of this pen can write the file any more."""
    marks, slash, path = asked.partition(b"/")
    size = len(MARK % 0)
    above = [marks[start : start + size] for start in range(0, len(marks), size)]
    with late_mounts.raised_capabilities(late_mounts.CAPABILITIES):
        try:
            for thing in mounts.open_all(os.fsdecode(slash + path), above):
                try:
                    if not late_mounts.is_read_only(thing):
                        late_mounts.protect(thing)
                finally:
                    os.close(thing)
        except OSError:
            return False
    return True
