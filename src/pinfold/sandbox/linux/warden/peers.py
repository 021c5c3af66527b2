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
- A pen can write below its writable mounts alone, and gets no more of these. A file lies below a directory
  that one of them shows, or that pen cannot write it.
- The directories above a project are not all seen in its pen: others take the place of those that are hidden,
  or root's alone. Their marks are found before the pen's mounts are made.
- A host that builds a pen says what its policy opens. Besides, a pen may write in git directories to which
  working trees in its projects lead, and in what its session has of its own, such as /tmp.
- A socket has room for some ten messages (net.unix.max_dgram_qlen), and an answering warden does not wait for
  room. So only as many are asked at a time as can answer at once.

Accepted: the same file at another path, as where a disk is mounted twice, is not recognized.
"""

import _socket
import errno
import os
import select
import struct
from _thread import RLock
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_SYMLINKS, openat2, path_in_proc
from pinfold.sandbox.linux.init.session_root import OWN
from pinfold.sandbox.linux.protocol.pen_registry import (
    ANYWHERE,
    BUILDER,
    WARDEN,
    fresh_socket,
    list_of_names,
    mark_of,
    marks_above,
    may_write_below,
    present,
    take_name,
)
from pinfold.sandbox.linux.warden import late_mounts

PATIENCE = 10.0
"""Seconds until the warden gives up: no process can search the directory meanwhile. Building a pen that makes
no progress takes less."""
STEP = 0.001
"""Seconds between two checks which pens there are."""
PROTECT, DONE = b"p", b"d"
REQUEST_ID_BYTES = 8
"""Random bytes of a request; an answer without them is late."""
AT_ONCE = 8
"""How many wardens are asked at a time."""
LARGEST = 1 + REQUEST_ID_BYTES + 4096
OUT_OF_REACH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
"""A warden with every right over files does not find it: then no process of its pen does."""
IN_GIT_DIRECTORIES = frozenset([".git", "objects", "refs", "logs", "worktrees", "modules"])
_CREDENTIALS = struct.Struct("=iII")
ROOM = _socket.CMSG_SPACE(_CREDENTIALS.size)


class PeerWardens:
    """Preconditions: made before a session's network is joined; `join` comes before the first command."""

    def __init__(self) -> None:
        self.socket = fresh_socket()
        self.names = list_of_names()
        self.own_name = b""
        self.lock = RLock()
        """The loop asks the others, and another thread answers them meanwhile (`mount_guard`)."""
        self.above: set[bytes] = set()
        self.own_pieces: set[bytes] = set()
        """Marks of what the session has of its own; its other pens have the same."""
        self.request_id = b""
        self.done: set[bytes] = set()
        """The wardens that have done what this request asks."""
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)

    @property
    def descriptors(self) -> set[int]:
        return {self.socket.fileno(), self.names}

    def join(self, proc: int, above: Iterable[bytes]) -> None:
        """From here on the others tell us about their files and wait for our answer.

        `proc`: the host's /proc; `above`: marks of the directories above what is writable here.
        """
        self.above = {*above}
        self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        marks = _marks_of_writable(proc)
        self.own_pieces = {*marks.own}
        self.own_name = take_name(self.socket, WARDEN, marks.all)

    def answer(self) -> None:
        """Protects what the others have announced by now, and notes which of them have done what we asked."""
        with self.lock:
            self._read_messages()

    def all_protect(self, path: str) -> bool:
        """Whether no other pen can write the file of this real path by now.

        Preconditions: the file exists, and no process inside can find it yet.
        """
        marks = {*marks_above(path), *self.above}
        about_all = not self.own_pieces.isdisjoint(marks) or _may_be_a_git_directory(path)

        def builders() -> set[bytes]:
            found = present(self.names, BUILDER)
            return found if about_all else {name for name in found if may_write_below(name, marks)}

        with self.lock:
            self.request_id, self.done = os.urandom(REQUEST_ID_BYTES), {self.own_name}
        message = PROTECT + self.request_id + os.fsencode(path)
        asked: set[bytes] = set()
        end = monotonic() + PATIENCE
        being_built = builders()
        while True:
            # First: a pen that is built by now is among the others.
            being_built &= builders()
            others = {name for name in present(self.names, WARDEN) if may_write_below(name, marks)}
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

    def _read_messages(self) -> None:
        """Preconditions: the lock is held."""
        while True:
            try:
                message, credentials, _, sender = self.socket.recvmsg(LARGEST, ROOM)
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
            elif kind == PROTECT and _protect(path):
                self._send(name, DONE + about)

    def _send(self, name: bytes, message: bytes) -> bool:
        """False if the warden is gone or its socket is full."""
        with suppress(OSError):
            self.socket.sendto(message, b"\0" + name[1:])
            return True
        return False


class WritableMarks(NamedTuple):
    all: list[bytes]
    own: list[bytes]
    """Of what the session has of its own."""


def _marks_of_writable(proc: int) -> WritableMarks:
    """Of the directories that this process's writable mounts show."""
    kept: list[tuple[bytes, bytes, bytes]] = []
    marks = WritableMarks([], [])
    listed = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    with open(listed, "rb") as file:
        for line in file:
            _, _, device, root, point, options, *_, source, _ = line.split(b" ")
            if b"rw" not in options.split(b",") or _is_part(device, root, point, kept):
                continue
            kept.append((device, root, point))
            try:
                mark = mark_of(os.stat(path_in_proc(point)))
            except OSError:  # another mount hides it, or it is another user's
                mark = ANYWHERE
            marks.all.append(mark)
            if source == OWN.encode():
                marks.own.append(mark)
    return marks


def _is_part(device: bytes, root: bytes, point: bytes, kept: list[tuple[bytes, bytes, bytes]]) -> bool:
    """Whether one of those shows the same thing at the same path."""
    return any(
        device == one and point.startswith(where + b"/") and root == shown.rstrip(b"/") + point[len(where) :]
        for one, shown, where in kept
    )


def _may_be_a_git_directory(path: str) -> bool:
    """Whether the file may lie in a git directory to which a working tree elsewhere leads."""
    *above, _, _ = path.split("/")
    directory = os.path.dirname(path)
    shared = any(os.path.lexists(f"{directory}/{name}") for name in ("worktrees", "modules"))
    return shared or not IN_GIT_DIRECTORIES.isdisjoint(above)


def _sender_of(credentials: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in credentials:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack(data)[1])
    return -1


def _protect(path: bytes) -> bool:
    """Whether no process of this pen can write the file any more."""
    with late_mounts.raised_capabilities(late_mounts.CAPABILITIES):
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
