"""The warden's thread that restores mounts, and hears the host and other wardens, whatever a call waits for.

Facts that shape it:
- A call can keep the loop that answers calls for many seconds. Reading a path of a caller waits for the lock
  of its memory, and making a name for that of the directory. Other threads of the program can hold both.
- Meanwhile the host may replace a hidden file, which takes its mount away. A program that opens the new file
  before it has a mount keeps it open.
- A thread has capabilities of its own, and goes on where the loop waits without the GIL (`kernel.quick`).

What else the host says is for the loop: the thread puts it into `heard`, and `bell` rings.

Puts the mounts that protect and hide things back where the host has undone them, while commands run.

Facts, tried on 6.18:
- A mount goes with the file that it is on: the host that renames another file over it, as editors and
  `git config` do, detaches it, and one that renames it away takes it along. In both cases the new file under
  the old name is open inside.
- The first is told by the pen's own mounts (POLLPRI on mountinfo), the second is not; but both, and a file
  that is removed and made again, are told by a watch on the directory.
- So both are watched, and what has no mount any more gets one, as a rule within a millisecond. Who opened
  the new file within that time keeps what it opened; docs/sandbox.md names this.
- A user has 128 queues of such events, for all programs. Where none is left, the mounts alone tell. A queue
  is counted in the user namespace that it was made in and in those above. So ours is made outside of the
  session, whose programs have no more than half of them (`rooms`).

Accepted: a directory above that is replaced as a whole is seen by the host before the next command (`held`),
not here; beyond `MOST` names none is watched.
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
from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_SYMLINKS, openat2
from pinfold.sandbox.linux.init.session_root import EMPTY, VOID
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.operations import Hide, Operations, Protect
from pinfold.sandbox.linux.protocol.warden import Hold, HostOrder
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.sandbox.linux.warden.peers import Neighbours

MOST = 1000
TOLD = inotify.IN_CREATE | inotify.IN_MOVED_TO | inotify.IN_MOVE_SELF | inotify.IN_DELETE_SELF


class Standing:
    def __init__(self, proc: int, operations: Operations, queue: int) -> None:
        """`proc`: the host's /proc, where we are known; `queue`: of events, or -1."""
        self.empty = {_identity(os.stat(path, follow_symlinks=False)) for path in (EMPTY, VOID)}
        self.protected: dict[str, None] = {}
        self.hidden: dict[str, None] = {}
        """In the order in which they came."""
        self.names: set[bytes] = set()
        self.lock = RLock()
        """Two threads hold things: who answers calls, and who hears the host (`mount_guard`)."""
        self.mounts = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self.queue = queue
        for operation in operations:
            match operation:
                case Protect(path):
                    self.hold(path, self.protected)
                case Hide(path):
                    self.hold(path, self.hidden)

    def hold(self, path: str, among: dict[str, None]) -> None:
        among[path] = None
        directory, name = os.path.split(os.fsencode(path))
        self.names.add(name)
        if self.queue >= 0 and len(self.names) <= MOST:
            # It may be out of reach, or the user may have no watches left.
            with suppress(OSError):
                inotify.add(self.queue, directory, TOLD)

    def register(self, poll: "select.poll") -> None:
        poll.register(self.mounts, select.POLLPRI)
        if self.queue >= 0:
            poll.register(self.queue, select.POLLIN)

    def take(self, protected: Iterable[str], hidden: Iterable[str]) -> None:
        """Holds what the host has found since."""
        with self.lock:
            for path in protected:
                self.hold(path, self.protected)
            for path in hidden:
                self.hold(path, self.hidden)
            self.restore()

    def protect(self, path: str) -> None:
        """Holds something that has just been made, or replaced."""
        self.take((path,), ())

    def look(self, descriptor: int) -> bool:
        """Something has happened to what we watch; False if this descriptor is not ours."""
        if descriptor == self.mounts:
            self.restore()
        elif descriptor == self.queue:
            self._look_at_names()
        else:
            return False
        return True

    def _look_at_names(self) -> None:
        if any(event.name in self.names or not event.name for event in inotify.events(self.queue)):
            self.restore()

    def restore(self) -> None:
        """Mounts what has no mount."""
        with self.lock, late_mounts.powers(late_mounts.POWERS):
            for path in self.protected:
                self._each(path, self._protect)
            for path in self.hidden:
                self._each(path, self._hide)

    @staticmethod
    def _each(path: str, mend: Callable[[int], None]) -> None:
        try:
            thing = openat2(AT_FDCWD, path, os.O_PATH, resolve=RESOLVE_NO_SYMLINKS)
        except OSError:
            return  # gone, or a link, which nothing can be mounted on
        try:
            mend(thing)
        except OSError:
            return  # gone meanwhile; if something else came in its place, that is told
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
    """For one to come; -1 if there is none left. Preconditions: no namespace of a session was joined."""
    try:
        return inotify.create()
    except OSError:
        return -1


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


Order = tuple[HostOrder, list[int]]
"""What the host said, and its descriptors."""


class MountGuard:
    def __init__(self, host: socket.socket, standing: Standing, neighbours: Neighbours) -> None:
        self.host = host
        self.standing = standing
        self.neighbours = neighbours
        self.heard: deque[Order | None] = deque()
        """None: the host is gone."""
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def start(self, failed: Callable[[BaseException], None]) -> None:
        """`failed` hears what ends the thread, and must end the process: nothing would be restored.

        Raises RuntimeError where the user can have no further thread.
        """

        def serve() -> None:
            try:
                # The timer's signal is for the loop alone (`moment`).
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                self._serve()
            except BaseException as error:  # noqa: BLE001  (whatever it was, the process must end)
                failed(error)

        start_new_thread(serve, ())

    def take(self) -> list[Order | None]:
        """What has been heard since."""
        try:
            os.eventfd_read(self.bell)
        except BlockingIOError:
            return []
        return [self.heard.popleft() for _ in range(len(self.heard))]

    def _serve(self) -> None:
        poll = select.poll()
        self.standing.register(poll)
        poll.register(self.host, select.POLLIN)
        poll.register(self.neighbours.socket, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.host.fileno():
                    if not self._hear():
                        poll.unregister(self.host)
                elif descriptor == self.neighbours.socket.fileno():
                    self.neighbours.answer()
                else:
                    self.standing.look(descriptor)

    def _hear(self) -> bool:
        """Takes a message of the host's; False if it is gone."""
        order: Order | None = None
        try:
            order = channel.receive(self.host, HostOrder)
        except BlockingIOError:
            return True
        except channel.Closed:
            pass
        if order and isinstance(hold := order[0], Hold):
            self.standing.take(hold.protected, hold.hidden)
        else:
            self.heard.append(order)
            os.eventfd_write(self.bell, 1)
        return order is not None
