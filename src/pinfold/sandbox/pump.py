"""Carries the bytes of one running command, until it ends, is cancelled or runs out of time.

It knows descriptors and a clock, not what is behind them: where output comes from, where input goes, which
descriptor tells the end (`read_end` says how), how to `kill`, and whom to `nudge` when nothing comes.

Facts that shape it:
- Processes that a command left behind hold its pipes open. The command is over when its first process is;
  what still comes within `GRACE` belongs to it (`>(tee log)`), the rest is given to `leave`, which keeps
  reading so that what was left behind is not ended by SIGPIPE.
- A terminal whose other side is closed reads as EIO.
"""

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterator

from pinfold.model.errors import InternalError
from pinfold.model.events import Event, Exited, Output, Stream
from pinfold.sandbox.backend import Result
from pinfold.sandbox.enforcement import Enforcement
from pinfold.sandbox.feed import Feed

CHUNK = 1 << 16
GRACE = 0.1
REPORT = 1.0


class Pump:
    """The events of one command; `wait` gathers them."""

    def __init__(
        self,
        streams: dict[int, Stream],
        end: int,
        read_end: Callable[[], Exited | None],
        kill: Callable[[], None],
        leave: Callable[[list[int]], None],
        feed: tuple[int, bytes | int] | None = None,
        timeout: float | None = None,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        self.streams = streams
        self.end = end
        self.read_end = read_end
        self.kill = kill
        self.leave = leave
        self.nudge = nudge
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.timed_out = False
        self.killed: float | None = None
        self.exited: Exited | None = None
        self.poll = select.poll()
        for descriptor in streams:
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)
        self.feed = Feed(*feed, self.poll) if feed else None
        self.poll.register(end, select.POLLIN)

    def events(self) -> Iterator[Event]:
        try:
            while self.streams or not self.exited:
                ready = self.poll.poll(self._patience())
                # Output first: whatever the command wrote was there before its end was told.
                for descriptor, events in ready:
                    yield from self._moved(descriptor, events)
                if self.exited is None and any(descriptor == self.end for descriptor, _ in ready):
                    self._ended()
                elif not ready:
                    self.nudge()
                    if self._unreported() or self._late():
                        break
        finally:
            self._close()
        if self.exited:
            yield self.exited

    def wait(self, cap: int | None, enforcement: Enforcement) -> Result:
        kept: dict[Stream, bytearray] = {stream: bytearray() for stream in Stream}
        truncated = False
        for event in self.events():
            if isinstance(event, Output):
                store = kept[event.stream]
                room = len(event.data) if cap is None else max(0, cap - len(store))
                truncated |= room < len(event.data)
                store += event.data[:room]
        if (end := self.exited) is None:
            raise InternalError("a command's events ended before the command")
        return Result(
            end.exit_code,
            end.signal,
            bytes(kept[Stream.STDOUT]),
            bytes(kept[Stream.STDERR]),
            end.timed_out,
            truncated,
            enforcement,
            end.cancelled,
        )

    def _moved(self, descriptor: int, events: int) -> Iterator[Event]:
        if self.feed and self.feed.owns(descriptor):
            if not self.feed.move(descriptor, events):
                self.feed = None
        elif descriptor in self.streams:
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if data:
                yield Output(self.streams[descriptor], data)
            else:
                self._forget(descriptor)

    def _ended(self) -> None:
        end = self.read_end()
        if end is None:
            return
        self.poll.unregister(self.end)
        self.exited = Exited(end.exit_code, end.signal, self.timed_out, end.cancelled)
        self.deadline = time.monotonic() + GRACE

    def _unreported(self) -> bool:
        """Everything of the command was ended, yet nobody says so: whoever should is ended or stopped too."""
        if self.exited or self.killed is None or time.monotonic() < self.killed + REPORT:
            return False
        self.exited = Exited(None, signal.SIGKILL, self.timed_out, not self.timed_out)
        return True

    def end_command(self) -> None:
        """Ends all that belongs to the command. From any thread."""
        self.kill()
        self.killed = time.monotonic()

    def _late(self) -> bool:
        """Time is up: of the command, which is then ended, or of what it left behind, which is then left."""
        if self.deadline is None or time.monotonic() < self.deadline:
            return False
        if self.exited:
            return True
        self.timed_out, self.deadline = True, None
        self.end_command()
        return False

    def _patience(self) -> float:
        """Milliseconds: never more than a while, since another thread may have ended the command."""
        rest = REPORT if self.deadline is None else min(REPORT, self.deadline - time.monotonic())
        return max(0.0, rest * 1000) + 0.5

    def _forget(self, descriptor: int) -> None:
        self.poll.unregister(descriptor)
        del self.streams[descriptor]
        os.close(descriptor)

    def _close(self) -> None:
        if self.exited is None:
            self.kill()
        if self.feed:
            self.feed.close()
            self.feed = None
        self.leave(list(self.streams))
        self.streams.clear()
        os.close(self.end)
