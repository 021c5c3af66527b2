"""The pipes of commands: what feeds their standard input, and what drains their output after they have ended.

Facts about poll(2): the writing end of a pipe whose reader is gone reports POLLERR, whether or not anything
was asked for; a regular file always reads.
"""

import os
import select
import sys
import threading
from contextlib import suppress

from pinfold.sandbox.poll_set import PollSet
from pinfold.sandbox.threads import begin_thread

CHUNK = 1 << 16


class Feed:
    """INVARIANT: one of the two descriptors is polled for progress: the source while nothing is held,
    the pipe while something is."""

    def __init__(self, pipe: int, source: bytes | int, poll: "select.poll") -> None:
        self.pipe = pipe
        self.source = source if isinstance(source, int) else None
        self.held = memoryview(b"" if isinstance(source, int) else source)
        self.poll = poll
        os.set_blocking(pipe, False)
        self._watch()

    def owns(self, descriptor: int) -> bool:
        return descriptor in (self.pipe, self.source)

    def move(self, descriptor: int, events: int) -> bool:
        """Carries a piece on; False once there is nothing left to carry, and the pipe is closed."""
        if descriptor == self.source:
            self.held = memoryview(_read(descriptor))
            if not self.held:
                self._forget_source()
        elif events & select.POLLERR:
            self._give_up()
        else:
            self._write()
        if not self.held and self.source is None:
            self.close()
            return False
        self._watch()
        return True

    def close(self) -> None:
        self._forget_source()
        self.poll.unregister(self.pipe)
        os.close(self.pipe)

    def _write(self) -> None:
        try:
            self.held = self.held[os.write(self.pipe, self.held[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._give_up()

    def _give_up(self) -> None:
        self.held = memoryview(b"")
        self._forget_source()

    def _forget_source(self) -> None:
        if self.source is not None:
            self._unwatch(self.source)
        self.source = None

    def _watch(self) -> None:
        if self.source is None:
            self.poll.register(self.pipe, select.POLLOUT)
        elif self.held:
            self._unwatch(self.source)
            self.poll.register(self.pipe, select.POLLOUT)
        else:
            self.poll.register(self.source, select.POLLIN)
            self.poll.register(self.pipe, 0)

    def _unwatch(self, descriptor: int) -> None:
        with suppress(KeyError):
            self.poll.unregister(descriptor)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except OSError:
        return b""


CHUNK = 1 << 16


class Drain:
    """One thread for all the pipes of a session; there is none before the first pipe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.poll = PollSet()
        self.open: set[int] = set()
        self.running = False
        self.closed = False

    def leave(self, descriptors: list[int]) -> None:
        """Takes descriptors over; closes them at their end."""
        if not descriptors:
            return
        with self.lock:
            # At Python's own end a new thread never begins, and its starter waits for it forever.
            self.closed = self.closed or sys.is_finalizing()
            for descriptor in descriptors:
                if self.closed:
                    os.close(descriptor)
                else:
                    self.open.add(descriptor)
                    self.poll.register(descriptor)
            if not self.running and not self.closed:
                with suppress(OSError):  # writers block then, until the pipe is read or the session ends
                    begin_thread(self._run, "drain")
                    self.running = True

    def close(self) -> None:
        """Preconditions: every writer has ended, so that every pipe is at its end."""
        with self.lock:
            self.closed = True
            if not self.running:
                self.poll.close()
                while self.open:  # of which there was no thread to read
                    os.close(self.open.pop())

    def _run(self) -> None:
        while True:
            for descriptor, _ in self.poll.poll(1.0):
                if not _read_away(descriptor):
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


def _read_away(descriptor: int) -> bool:
    """Whether more may come."""
    try:
        return bool(os.read(descriptor, CHUNK))
    except BlockingIOError:
        return True
    except OSError:
        return False
