"""Descriptors that one thread waits for, while any other adds and removes some.

Facts (epoll(7), poll(2)):
- What epoll watches the kernel counts by user, in every program and namespace (fs.epoll.max_user_watches).
  No limit bounds what a command has of it: one takes all in six seconds, and from then on each epoll of the
  user's programs refuses to watch anything (ENOSPC).
- poll gets the whole set anew each time, and so is not counted. A thread that waits in it misses changes.
- A descriptor that was closed is POLLNVAL to poll; epoll forgets it.

What this means for us: pinfold waits by poll, and a change wakes the waiting thread.
"""

import os
import select
import threading
from contextlib import suppress


class PollSet:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[int] = set()
        self._changed = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def register(self, descriptor: int) -> None:
        """Preconditions: it is not closed."""
        with self._lock:
            self._watched.add(descriptor)
            os.eventfd_write(self._changed, 1)

    def unregister(self, descriptor: int) -> None:
        """Preconditions: it is not closed."""
        with self._lock:
            self._watched.discard(descriptor)
            os.eventfd_write(self._changed, 1)

    def poll(self, seconds: float | None = None) -> list[tuple[int, int]]:
        """Which can be read, or have hung up; none where time is up or there was a change. For one thread."""
        poll = select.poll()
        with self._lock:
            for descriptor in (*self._watched, self._changed):
                poll.register(descriptor, select.POLLIN)
        rung = poll.poll(None if seconds is None else seconds * 1000)
        gone = {descriptor for descriptor, event in rung if event & select.POLLNVAL}
        with self._lock, suppress(BlockingIOError):
            self._watched -= gone
            os.eventfd_read(self._changed)
        return [ring for ring in rung if ring[0] not in gone and ring[0] != self._changed]

    def close(self) -> None:
        """May be called more than once. Preconditions: no thread waits any more."""
        with self._lock:
            changed, self._changed = self._changed, -1
        if changed >= 0:
            os.close(changed)
