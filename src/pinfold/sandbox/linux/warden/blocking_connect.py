"""Connects that may block: the loop tries each for a moment, and then gives it to a thread of its own.

Facts that shape it:
- A connect blocks while the other side's backlog is full, perhaps for good, and nothing tells beforehand. The
  loop that answers all calls must not block with it.
- A thread for each connect would cost a wake-up on another processor every time. So the loop tries by itself,
  under a timer whose signal ends the wait (`watchdog`). If a connect to the same target is waiting already,
  the loop does not try.
- The socket is the caller's own, so the warden must not change its flags. A non-blocking one returns at once
  by itself, and one with SO_SNDTIMEO waits as long as that says.
- A killed caller leaves its connect to us, and no event says so: while threads wait, one of them checks.
"""

import errno
import os
import signal
from _thread import allocate_lock, get_ident, stack_size, start_new_thread
from collections.abc import Callable, Hashable
from time import sleep

from pinfold.kernel.namespaces import CLONE_FS, unshare
from pinfold.kernel.sockets import connect
from pinfold.model.fair_share import has_room
from pinfold.sandbox.linux.warden import watchdog

LOOK = 0.05
"""Seconds between two checks whether the callers are still there."""
MOST = 256
"""How many connects may wait at a time; a further one gets EAGAIN."""
STACK = 256 * 1024


class BlockingConnects:
    def __init__(
        self, descriptors: int, answer: Callable[[int, int], object], is_wanted: Callable[[int], bool]
    ) -> None:
        self.descriptors = descriptors
        """Our own /proc/self/fd, the working directory of the connecting threads."""
        self.answer = answer
        """Answers a call, by its id, with an errno."""
        self.is_wanted = is_wanted
        """Whether the caller still waits."""
        self.lock = allocate_lock()
        self.threads: dict[int, int] = {}
        """The thread of each waiting call, by the call's id."""
        self.targets: list[Hashable] = []
        self.holders: list[int] = []
        """The tags of the waiting calls' commands; `connect` gets a function that reads them."""
        self.watching = False
        watchdog.prepare()
        stack_size(STACK)

    def connect(
        self,
        id_: int,
        tag: Callable[[], int],
        descriptors: tuple[int, ...],
        address: bytes,
        target: Hashable,
        look: Callable[[int, int], None] | None = None,
    ) -> int | None:
        """The errno of a connect of the first descriptor; None if a thread will answer.

        Takes ownership of the descriptors: they stay open until the connect is done. `target` identifies
        connects that wait for the same thing. `look` is called with the first descriptor and the errno before
        it is closed, but not if a thread has to wait. Preconditions: the timer runs (`watchdog`).
        """
        if target not in self.targets:
            error = connect(descriptors[0], address)
            if error != errno.EINTR:
                if look:
                    look(descriptors[0], error)
                close(descriptors)
                return error
        return self._hand_over(id_, tag(), descriptors, address, target)

    def _hand_over(
        self, id_: int, tag: int, descriptors: tuple[int, ...], address: bytes, target: Hashable
    ) -> int | None:
        with self.lock:
            fits = has_room(self.holders, tag, MOST)
            if fits and self._start(self._wait, id_, tag, descriptors, address, target):
                self.targets.append(target)
                self.holders.append(tag)
                self.watching = self.watching or self._start(self._watch)
                return None
        close(descriptors)
        return errno.EAGAIN

    @staticmethod
    def _start(work: Callable[..., None], *arguments: object) -> bool:
        try:
            start_new_thread(work, arguments)
        except RuntimeError:  # the user may start no further thread
            return False
        return True

    def _wait(
        self, id_: int, tag: int, descriptors: tuple[int, ...], address: bytes, target: Hashable
    ) -> None:
        with self.lock:
            self.threads[id_] = get_ident()
        error = errno.EINTR
        try:
            # The loop changes its working directory; this thread's must not change.
            unshare(CLONE_FS)
            os.fchdir(self.descriptors)
            while error == errno.EINTR and self.is_wanted(id_):
                error = connect(descriptors[0], address)
        finally:
            with self.lock:
                del self.threads[id_]
                self.targets.remove(target)
                self.holders.remove(tag)
            close(descriptors)
            self.answer(id_, error)

    def _watch(self) -> None:
        while True:
            sleep(LOOK)
            with self.lock:
                if not self.targets:
                    self.watching = False
                    return
                for id_, thread in self.threads.items():
                    if not self.is_wanted(id_):
                        signal.pthread_kill(thread, signal.SIGALRM)


def close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
