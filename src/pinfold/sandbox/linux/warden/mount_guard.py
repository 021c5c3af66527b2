"""Restores the mounts that protect and hide files when the host undoes them, on a thread of its own, while
commands run.

Facts about mounts, tried on 6.18:
- A mount belongs to the file that it is on. If the host renames another file over it, as editors and `git
  config` do, the mount is detached. If the host renames the file away, the mount goes along. Either way, the
  new file under the old name is open inside.
- The pen's own mount table reports the first (POLLPRI on mountinfo), but not the second. A watch on the
  directory reports both, and a file that is removed and made again.
- So both are watched, and what has lost its mount gets a new one, normally within a millisecond. A process
  that opened the new file within that time keeps it open; docs/sandbox.md names this.
- A user has 128 inotify queues for all programs. If none is left, only the mount table tells. A queue is
  counted in the user namespace that made it and in those above. So ours is made outside the session, whose
  programs have no more than half of them (`init.session_root`).

Why on a thread of its own:
- A call can occupy the loop that answers calls for many seconds. Reading a caller's path waits for the lock
  of its memory, and making a name for the lock of the directory. Other threads of the program can hold both.
- Meanwhile the host may replace a hidden file, which detaches its mount. A program that opens the new file
  before it has a mount keeps it open.
- A thread has capabilities of its own, and runs while the loop waits without the GIL (`kernel.fast_calls`).

The thread also reads the socket of the host. Messages for the loop go into `heard`, and `bell` rings.

Accepted: if a directory above is replaced as a whole, the host sees it before the next command
(`workspace.watcher`), not this thread. Beyond `MOST` names no further ones are watched.
"""

import os
import select
import signal
import socket
import stat
from _thread import RLock, start_new_thread
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from pinfold.kernel import inotify
from pinfold.sandbox.linux.init.session_root import EMPTY, VOID
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.operations import (
    Cover,
    Hide,
    Link,
    Operations,
    Protect,
    Reveal,
    of_kind,
)
from pinfold.sandbox.linux.protocol.warden import Hold, HostOrder
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens
from pinfold.sandbox.linux.warden.writable_mounts import WritableMounts

MOST = 1000
TOLD = inotify.IN_CREATE | inotify.IN_MOVED_TO | inotify.IN_MOVE_SELF | inotify.IN_DELETE_SELF


class MountRestorer:
    """The read-only and empty mounts of the pen, and how to restore them."""

    def __init__(self, proc: int, operations: Operations, queue: int, writable: WritableMounts) -> None:
        """`proc`: the host's /proc, where we are known; `queue`: an inotify queue, or -1."""
        self.proc, self.writable = proc, writable
        self.empty = {_identity(os.stat(path, follow_symlinks=False)) for path in (EMPTY, VOID)}
        self.protected: dict[str, None] = {}
        self.hidden: dict[str, None] = {}
        """In the order in which they were added."""
        self.names: set[bytes] = set()
        self.lock = RLock()
        """Two threads add paths: the loop that answers calls, and the one that hears the host
        (`MountGuard`)."""
        self.mounts = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self.queue = queue
        for operation in operations:
            match operation:
                case Protect(path):
                    self.add(path, self.protected)
                case Hide(path):
                    self.add(path, self.hidden)
                case Reveal(path) | Link(path, _):
                    self._add_cover_of(path, operations)

    def _add_cover_of(self, path: str, operations: Operations) -> None:
        """A hidden directory in which something is shown: if its mount is lost, all of it is hidden."""
        covers = (each.path for each in of_kind(operations, Cover) if path.startswith(f"{each.path}/"))
        cover = max(covers, key=len)
        self.empty.add(_identity(os.stat(cover)))
        self.add(cover, self.hidden)

    def add(self, path: str, among: dict[str, None]) -> None:
        among[path] = None
        directory, name = os.path.split(path)
        self.names.add(os.fsencode(name))
        if self.queue >= 0 and len(self.names) <= MOST:
            # The directory may be unreachable, or the user may have no watches left.
            with suppress(OSError):
                inotify.add(self.queue, os.fsencode(self.writable.current_path(self.proc, directory)), TOLD)

    def register(self, poll: "select.poll") -> None:
        poll.register(self.mounts, select.POLLPRI)
        if self.queue >= 0:
            poll.register(self.queue, select.POLLIN)

    def extend(self, protected: Iterable[str], hidden: Iterable[str]) -> None:
        """Protects and hides what the host has found since."""
        with self.lock:
            for path in protected:
                self.add(path, self.protected)
            for path in hidden:
                self.add(path, self.hidden)
            self.restore()

    def protect(self, path: str) -> None:
        """Keeps a file read-only that was just made or replaced."""
        self.extend((path,), ())

    def handle(self, descriptor: int) -> bool:
        """Handles an event of what we watch; False if the descriptor is not ours."""
        if descriptor == self.mounts:
            self.restore()
        elif descriptor == self.queue:
            self._handle_names()
        else:
            return False
        return True

    def _handle_names(self) -> None:
        if any(event.name in self.names or not event.name for event in inotify.events(self.queue)):
            self.restore()

    def restore(self) -> None:
        """Mounts again over everything that has lost its mount."""
        with self.lock, late_mounts.raised_capabilities(late_mounts.CAPABILITIES):
            for path in self.protected:
                self._each(path, self._protect)
            for path in self.hidden:
                self._each(path, self._hide)

    def _each(self, path: str, mend: Callable[[int], None]) -> None:
        try:
            thing = self.writable.open(path)
        except OSError:
            return  # removed, or a link, which cannot be mounted on
        try:
            mend(thing)
        except OSError:
            return  # removed meanwhile; an event will report what replaced it
        finally:
            os.close(thing)

    @staticmethod
    def _protect(thing: int) -> None:
        if not late_mounts.is_read_only(thing):
            late_mounts.protect(thing)

    def _hide(self, thing: int) -> None:
        status = os.fstat(thing)
        if _identity(status) not in self.empty:
            late_mounts.cover(thing, EMPTY if stat.S_ISDIR(status.st_mode) else VOID)


def queue() -> int:
    """The inotify queue for a warden; -1 if none is left. Preconditions: no namespace of a session was
    joined."""
    try:
        return inotify.create()
    except OSError:
        return -1


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


HostMessage = tuple[HostOrder, list[int]]
"""A message of the host, and its descriptors."""


class MountGuard:
    """The thread: restores mounts, answers other wardens, and queues messages of the host for the loop."""

    def __init__(self, host: socket.socket, restorer: MountRestorer, peers: PeerWardens) -> None:
        self.host = host
        self.restorer = restorer
        self.peers = peers
        self.heard: deque[HostMessage | None] = deque()
        """None: the host is gone."""
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def start(self, failed: Callable[[BaseException], None]) -> None:
        """`failed` is called with what ends the thread, and must end the process: mounts would not be
        restored.

        Raises RuntimeError if the user may start no further thread.
        """

        def serve() -> None:
            try:
                # The timer's signal is for the loop alone (`watchdog`).
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                self._serve()
            except BaseException as error:  # noqa: BLE001  (the process must end on every error)
                failed(error)

        start_new_thread(serve, ())

    def messages(self) -> list[HostMessage | None]:
        """The messages that have arrived since."""
        try:
            os.eventfd_read(self.bell)
        except BlockingIOError:
            return []
        return [self.heard.popleft() for _ in range(len(self.heard))]

    def _serve(self) -> None:
        poll = select.poll()
        self.restorer.register(poll)
        poll.register(self.host, select.POLLIN)
        poll.register(self.peers.socket, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.host.fileno():
                    if not self._read_host():
                        poll.unregister(self.host)
                elif descriptor == self.peers.socket.fileno():
                    self.peers.answer()
                else:
                    self.restorer.handle(descriptor)

    def _read_host(self) -> bool:
        """Takes a message of the host; False if the host is gone."""
        message: HostMessage | None = None
        try:
            message = channel.receive(self.host, HostOrder)
        except BlockingIOError:
            return True
        except channel.ChannelClosed:
            pass
        if message and isinstance(hold := message[0], Hold):
            self.restorer.extend(hold.protected, hold.hidden)
        else:
            self.heard.append(message)
            os.eventfd_write(self.bell, 1)
        return message is not None
