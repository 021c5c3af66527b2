"""Reads and throws away what processes left behind by a command still write, so that no SIGPIPE ends them."""

import os
import sys
import threading
from contextlib import suppress

from pinfold.sandbox.poll_set import Doorbells
from pinfold.sandbox.threads import begin_thread

CHUNK = 1 << 16


class Drain:
    """One thread for all the pipes of a session; there is none before the first pipe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.poll = Doorbells()
        self.open: set[int] = set()
        self.running = False
        self.closed = False

    def leave(self, descriptors: list[int]) -> None:
        """Takes descriptors over; closes them at their end."""
        if not descriptors:
            return
        with self.lock:
            # At Python's own end a thread that is started never begins, and who starts it waits for that.
            self.closed = self.closed or sys.is_finalizing()
            for descriptor in descriptors:
                if self.closed:
                    os.close(descriptor)
                else:
                    self.open.add(descriptor)
                    self.poll.register(descriptor)
            if not self.running and not self.closed:
                with suppress(OSError):  # who writes waits then, until somebody reads or the session ends
                    begin_thread(self._run, "drain")
                    self.running = True

    def close(self) -> None:
        """Preconditions: whatever wrote has ended, so that every pipe is at its end."""
        with self.lock:
            self.closed = True
            if not self.running:
                self.poll.close()
                while self.open:  # of which there was no thread to read
                    os.close(self.open.pop())

    def _run(self) -> None:
        while True:
            for descriptor, _ in self.poll.poll(1.0):
                if not _read(descriptor):
                    self._forget(descriptor)
            with self.lock:
                if not self.open:
                    self.running = False
                    if self.closed:
                        self.poll.close()
                    return

    def _forget(self, descriptor: int) -> None:
        with self.lock:
            self.poll.unregister(descriptor)
            self.open.discard(descriptor)
            os.close(descriptor)


def _read(descriptor: int) -> bool:
    """Whether more may come."""
    try:
        return bool(os.read(descriptor, CHUNK))
    except BlockingIOError:
        return True
    except OSError:
        return False
