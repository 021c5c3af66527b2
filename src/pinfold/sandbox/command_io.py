"""Carries the bytes of one running command, until it ends, is cancelled or runs out of time.

It knows descriptors and a clock, not what is behind them: where output comes from, where input goes, which
descriptor tells the end (`read_end` says how), how to `kill`, and whom to `nudge` when nothing comes.

Facts that shape it:
- Processes that a command left behind hold its pipes open. The command is over when its first process is;
  what still comes within `GRACE` belongs to it (`>(tee log)`), the rest is given to `leave`, which keeps
  reading so that what was left behind is not ended by SIGPIPE.
- What was left behind may write faster than whoever follows the command takes it, without end. Output comes
  in the order in which it was written, so once as much has come since the end as the pipe holds, the
  command's own is through.
- A terminal whose other side is closed reads as EIO.
- A fork of the host has a copy of all this, and of every descriptor. It may close its copies and nothing
  else: what it reads the other has lost, and whom it kills is the other's command.
"""

import errno
import fcntl
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event, Exited, Output, Stream
from pinfold.sandbox.backend import CommandResult, Enforcement
from pinfold.sandbox.pipes import Feed

CHUNK = 1 << 16
GRACE = 0.1
REPORT = 1.0
ROOM = 1 << 20
"""Bytes that a terminal holds at most; of a pipe it is asked."""


class Pump:
    """The events of one command; `wait` gathers them.

    INVARIANT: its descriptors belong to the one run of `events`, which closes them or gives them away at its
    end. Other threads may end the command (`end_command`, `expire`), and use one of `streams` while they hold
    `lock` and it is still there.
    """

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
        self.owner = os.getpid()
        self.streams = streams
        self.hung_up: list[int] = []
        self.end = end
        self.read_end = read_end
        self.kill = kill
        self.leave = leave
        self.nudge = nudge
        self.deadline = None if timeout is None else time.monotonic() + timeout
        """Of the command; once it has ended, of what still comes from it."""
        self.owed: dict[int, int] = {}
        """Bytes of each stream that may have been written before the end and have not come yet."""
        self.timed_out = False
        self.killed: float | None = None
        self.exited: Exited | None = None
        self.lock = threading.Lock()
        self.taken = False
        self.is_begun = False
        """Whether its descriptors are its own by now, and no longer those of who made them."""
        self.result: CommandResult | None = None
        self.failure: ConfinementError | None = None
        self.poll = select.poll()
        for descriptor in streams:
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)
        self.feed = Feed(*feed, self.poll) if feed else None
        self.poll.register(end, select.POLLIN)

    def __del__(self) -> None:
        # Nobody has followed the command, and nobody can any more. It is ended with its session, or goes on.
        if self.is_begun and not self.taken:
            for descriptor in (*self.streams, self.end, *((self.feed.pipe,) if self.feed else ())):
                os.close(descriptor)

    def events(self) -> Iterator[Event]:
        self._take()
        is_left = False
        try:
            while self.streams or not self.exited:
                ready = self.poll.poll(self._patience())
                self._require_own()
                ended = False
                # Output first: whatever the command wrote was there before its end was told.
                for descriptor, events in ready:
                    if descriptor == self.end:
                        ended = True
                    elif output := self._moved(descriptor, events):
                        yield output
                        self._require_own()
                if ended and self.exited is None:
                    with self.lock:
                        self._ended()
                elif not ready:
                    self.nudge()
                    if self._unreported() or self._late():
                        break
                elif self._is_through(ready):
                    break
        except ConfinementError as error:
            self.failure = error
            raise
        except GeneratorExit:
            # At Python's own end no other thread comes to anything; nor is a fork's copy anybody's to end.
            is_left = self.is_own and not sys.is_finalizing()
            raise
        finally:
            if is_left:
                from pinfold.sandbox.threads import done_elsewhere

                done_elsewhere(self._close)
            else:
                self._close()
        if self.exited:
            yield self.exited

    def wait(self, cap: int | None, enforcement: Enforcement) -> CommandResult:
        """The same result each time; without output if that was taken by `events`."""
        if self.result is None:
            kept, truncated = ({}, False) if self.taken else self._gather(cap)
            self.result = self._result(kept, truncated, enforcement)
        return self.result

    @property
    def is_own(self) -> bool:
        """Whether this is not a fork of the process that started the command."""
        return os.getpid() == self.owner

    def _require_own(self) -> None:
        if not self.is_own:
            raise ConfinementError("this command belongs to the process that started it")

    def _take(self) -> None:
        self._require_own()
        with self.lock:
            if self.taken:
                raise ConfinementError("a command can be followed once, and this one has been")
            self.taken = True

    def _gather(self, cap: int | None) -> tuple[dict[Stream, bytes], bool]:
        kept = {stream: BytesIO() for stream in Stream}  # it grows, and is given out, without a copy
        truncated = False
        for event in self.events():
            if isinstance(event, Output):
                store = kept[event.stream]
                room = len(event.data) if cap is None else max(0, cap - store.tell())
                truncated |= room < len(event.data)
                store.write(event.data[:room])
        return {stream: store.getvalue() for stream, store in kept.items()}, truncated

    def _result(
        self, kept: Mapping[Stream, bytes], truncated: bool, enforcement: Enforcement
    ) -> CommandResult:
        if self.failure:
            raise self.failure
        if (end := self.exited) is None:
            raise ConfinementError("somebody else follows this command, and it has not ended")
        return CommandResult(
            end.exit_code,
            end.signal,
            kept.get(Stream.STDOUT, b""),
            kept.get(Stream.STDERR, b""),
            end.timed_out,
            truncated,
            enforcement,
            end.cancelled,
        )

    def _moved(self, descriptor: int, events: int) -> Output | None:
        if self.feed and self.feed.owns(descriptor):
            if not self.feed.move(descriptor, events):
                self.feed = None
        elif descriptor in self.streams:
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self._hang_up(descriptor)
                return None
            if data:
                if descriptor in self.owed:
                    self.owed[descriptor] -= len(data)
                return Output(self.streams[descriptor], data)
            self._forget(descriptor)
        return None

    def _is_through(self, ready: list[tuple[int, int]]) -> bool:
        """What comes was written after the end, and its time is up. What is not ready has nothing to give."""
        is_owed = any(self.owed.get(descriptor, 0) > 0 for descriptor, _ in ready)
        return self.exited is not None and not is_owed and self._is_late()

    def _hang_up(self, descriptor: int) -> None:
        """Nobody has the terminal open any more. To close it now would send SIGHUP to a command that closes
        its streams before it ends, as many do; so it is kept until then."""
        self.poll.unregister(descriptor)
        with self.lock:
            del self.streams[descriptor]
        self.hung_up.append(descriptor)

    def known_end(self) -> Exited | None:
        """How it ended, whether or not anybody follows it; None if that is not known yet."""
        # Not where it is followed: its generator may be let go of while this thread has the lock. Nor in a
        # fork, where another that had it is not there any more.
        if not self.taken and self.is_own:
            with self.lock:
                if not self.taken and self.exited is None and self.end in dict(self.poll.poll(0)):
                    self._ended()
        return self.exited

    def _ended(self) -> None:
        """Preconditions: the lock is held."""
        end = self.read_end()
        if end is None:
            return
        self.poll.unregister(self.end)
        # Nobody ends a command but by SIGKILL: any other end is its own, and had come before it was seen.
        ours = end.signal == signal.SIGKILL
        self.exited = Exited(end.exit_code, end.signal, ours and self.timed_out, ours and end.cancelled)
        self.deadline = time.monotonic() + GRACE
        self.owed = {descriptor: _room(descriptor) for descriptor in self.streams}

    def _unreported(self) -> bool:
        """Everything of the command was ended, yet nobody says so: whoever should is ended or stopped too."""
        if self.exited or self.killed is None or time.monotonic() < self.killed + REPORT:
            return False
        self.exited = self._killed()
        return True

    def _killed(self) -> Exited:
        return Exited(None, signal.SIGKILL, self.timed_out, not self.timed_out)

    def end_command(self) -> None:
        """Ends all that belongs to the command. From any thread."""
        self._require_own()
        self.kill()
        self.killed = time.monotonic()

    def expire(self) -> None:
        """Ends the command if its time is up. From any thread: whoever follows it may be slow, or nobody."""
        with self.lock:
            if self.exited or self.killed is not None or not self._is_late():
                return
            self.timed_out = True
        self.end_command()

    def _late(self) -> bool:
        """Time is up: of the command, which is then ended, or of what it left behind, which is then left."""
        if self.exited:
            return self._is_late()
        self.expire()
        return False

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _patience(self) -> float:
        """Milliseconds: never more than a while, since another thread may have ended the command."""
        deadline = self.deadline if self.exited or self.killed is None else None
        rest = REPORT if deadline is None else min(REPORT, deadline - time.monotonic())
        return max(0.0, rest * 1000) + 0.5

    def _forget(self, descriptor: int) -> None:
        self.poll.unregister(descriptor)
        with self.lock:
            del self.streams[descriptor]
            os.close(descriptor)

    def _close(self) -> None:
        try:
            if self.exited is None and self.is_own:
                self.kill()
                # Whoever followed it went away, and nobody has seen how it ended.
                self.exited = self._killed()
        finally:
            if self.feed:
                self.feed.close()
                self.feed = None
            self._give_up_streams()
            for descriptor in (self.end, *self.hung_up):
                os.close(descriptor)

    def _give_up_streams(self) -> None:
        if not self.is_own:
            # Without the lock: a thread that had it is not there in a fork.
            for descriptor in self.streams:
                os.close(descriptor)
            self.streams.clear()
            return
        with self.lock:
            left = list(self.streams)
            self.streams.clear()
        self.leave(left)


def _room(descriptor: int) -> int:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    except OSError:
        return ROOM
