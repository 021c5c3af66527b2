"""What a command is given to read on its standard input: bytes, or whatever a descriptor of ours brings.

Facts about poll(2): the writing end of a pipe whose reader is gone reports POLLERR, whether or not anything
was asked for; a regular file always reads.
"""

import os
import select
from contextlib import suppress

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
