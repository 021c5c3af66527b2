"""Connects that may have to wait: tried for a moment, then each by a thread of its own.

Facts that shape it:
- A connect waits while the other side's backlog is full, perhaps for good, and nothing tells beforehand. The
  loop that answers everybody's calls must not wait with it.
- Handing each one to a thread would cost every connect a wake-up on the other processor. So the loop tries
  itself, under a timer whose signal ends the wait (`moment`). What would be waited for once more is known by
  its target, and is not tried again.
- The socket is the caller's own, so its flags are not ours to change: one that does not block answers at once
  by itself, and one with SO_SNDTIMEO waits as long as it says.
- A caller that is killed leaves its connect with us, and no event says so: while threads wait, one looks.
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
"""Seconds between two looks at whether the callers are still there."""
MOST = 256
"""How many may wait at a time; who comes then hears EAGAIN."""
STACK = 256 * 1024


class Waiting:
    def __init__(
        self, descriptors: int, answer: Callable[[int, int], object], is_wanted: Callable[[int], bool]
    ) -> None:
        self.descriptors = descriptors
        """Our own /proc/self/fd, the working directory of whoever connects."""
        self.answer = answer
        """Answers a call, by its id, with an errno."""
        self.is_wanted = is_wanted
        """Whether the caller still waits."""
        self.lock = allocate_lock()
        self.threads: dict[int, int] = {}
        """The calls that are waited for, by id: the thread of each."""
        self.targets: list[Hashable] = []
        self.holders: list[int] = []
        """The command of each call that waits, by its tag, which `connect` is given a way to find out."""
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
        """The errno of the connect of the first descriptor; None if a thread will answer.

        Takes the descriptors: they stay open until it is done. `target` is what may be found waiting.
        `look` is shown the first one, and how it went, before that; not if a thread has to wait for it.
        Preconditions: the timer stands (`moment`).
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
        except RuntimeError:  # the user's processes are all used up
            return False
        return True

    def _wait(
        self, id_: int, tag: int, descriptors: tuple[int, ...], address: bytes, target: Hashable
    ) -> None:
        with self.lock:
            self.threads[id_] = get_ident()
        error = errno.EINTR
        try:
            # The loop changes its working directory; ours is to stay.
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
