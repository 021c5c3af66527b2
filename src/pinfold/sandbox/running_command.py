"""A command under way, in a pen or without one: its bytes, its end, its time limit.

`PipedCommand` knows descriptors and a clock. Its subclasses say how the end is read (`_read_end`), how to end
the command (`_kill`), what reads on after its end (`_leave`), and what to do when nothing comes (`_nudge`).

Facts that shape it:
- Processes that a command left behind hold its pipes open. The command is over when its first process is.
  What comes within `GRACE` after that belongs to it (`>(tee log)`). Then `_leave` gets the pipes, which reads
  on, so that SIGPIPE does not end what was left behind.
- What was left behind may write faster than the reader of the events takes it, without end. Output comes in
  the order in which it was written. So once as much has come since the end as the pipe holds, all of the
  command's own output has come.
- A terminal whose other side is closed reads as EIO.
- A fork of the host has a copy of all this, and of every descriptor. It may close its copies and nothing
  else: what it read would be lost to the host, and what it killed would be the host's command.
"""

import errno
import fcntl
import os
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from io import BytesIO

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event, Exited, Output, Stream
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import CommandResult, Enforcement
from pinfold.sandbox.pipes import Feed

CHUNK = 1 << 16
GRACE = 0.1
REPORT = 1.0
ROOM = 1 << 20
"""Bytes that a terminal holds at most; of a pipe it is asked."""


class PipedCommand:
    """INVARIANT: its descriptors belong to the one run of `events`, which closes them or gives them away at
    its end. Other threads may end the command (`cancel`, `expire`), and use one of `streams` while they hold
    `lock` and it is still there.
    """

    terminal: int | None = None
    """Our side of its terminal, if it has one."""
    cancelled = False
    left_running: tuple[str, ...] = ()
    is_begun = False
    """Whether its descriptors are its own by now, and no longer those of the code that opened them."""

    def _follow(
        self,
        streams: dict[int, Stream],
        status: int,
        feed: tuple[int, bytes | int] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Takes the descriptors. `status` becomes readable at the command's end."""
        self.owner = os.getpid()
        self.streams = streams
        self.status = status
        self.hung_up: list[int] = []
        self.deadline = None if timeout is None else time.monotonic() + timeout
        """Of the command; once it has ended, of what still comes from it."""
        self.owed: dict[int, int] = {}
        """Bytes of each stream that may have been written before the end and have not come yet."""
        self.timed_out = False
        self.killed: float | None = None
        self.exited: Exited | None = None
        self.lock = threading.Lock()
        self.taken = False
        self.result: CommandResult | None = None
        self.trouble: ConfinementError | None = None
        """Why its end cannot be known."""
        self.poll = select.poll()
        for descriptor in streams:
            os.set_blocking(descriptor, False)
            self.poll.register(descriptor, select.POLLIN)
        self.feed = Feed(*feed, self.poll) if feed else None
        self.poll.register(status, select.POLLIN)

    def _read_end(self) -> Exited | None:
        """How it ended, by `status`; None if that says nothing yet."""
        raise NotImplementedError

    def _kill(self) -> None:
        """Ends all that belongs to the command."""
        raise NotImplementedError

    def _leave(self, descriptors: list[int]) -> None:
        """Takes over the streams of a command that has ended: what it left behind may write on."""
        raise NotImplementedError

    def _nudge(self) -> None:
        """Nothing has come for a while."""

    def __del__(self) -> None:
        # No caller has followed the command, and none can any more. It ends with its session, or goes on.
        if self.is_begun and not self.taken:
            for descriptor in (*self.streams, self.status, *((self.feed.pipe,) if self.feed else ())):
                os.close(descriptor)

    def events(self) -> Iterator[Event]:
        self._take()
        is_left = False
        try:
            while self.streams or not self.exited:
                ready = self.poll.poll(self._patience())
                self._require_own()
                ended = False
                # Output first: the command wrote it before its end was reported.
                for descriptor, events in ready:
                    if descriptor == self.status:
                        ended = True
                    elif output := self._moved(descriptor, events):
                        yield output
                        self._require_own()
                if ended and self.exited is None:
                    with self.lock:
                        self._note_end()
                elif not ready:
                    self._nudge()
                    if self._unreported() or self._late():
                        break
                elif self._is_through(ready):
                    break
        except ConfinementError as error:
            self.trouble = error
            raise
        except GeneratorExit:
            # At Python's own end other threads do not run any more; and a fork's copy must not end the
            # command.
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

    def _gathered(self, cap: int | None, enforcement: Enforcement) -> CommandResult:
        """One result, however often it is asked for; without output if `events` gave that."""
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
        if self.trouble:
            raise self.trouble
        if (end := self.exited) is None:
            raise ConfinementError("another caller reads this command's output, and it has not ended")
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
        """No process has the terminal open any more. Closing it now would send SIGHUP to a command that
        closes its streams before it ends, as many do; so it stays open until the end."""
        self.poll.unregister(descriptor)
        with self.lock:
            del self.streams[descriptor]
        self.hung_up.append(descriptor)

    @property
    def end(self) -> Exited | None:
        """How it ended, whether or not its events are read; None if that is not known yet."""
        # Not where they are read: their generator may be closed while this thread has the lock. Nor in a
        # fork, where a thread that had the lock is not there any more.
        if not self.taken and self.is_own:
            with self.lock:
                if not self.taken and self.exited is None and self.status in dict(self.poll.poll(0)):
                    self._note_end()
        return self.exited

    def _note_end(self) -> None:
        """Preconditions: the lock is held."""
        end = self._read_end()
        if end is None:
            return
        self.poll.unregister(self.status)
        # Pinfold ends a command by SIGKILL alone: any other end is its own, and came before that.
        ours = end.signal == signal.SIGKILL
        self.exited = Exited(end.exit_code, end.signal, ours and self.timed_out, ours and end.cancelled)
        self.deadline = time.monotonic() + GRACE
        self.owed = {descriptor: _room(descriptor) for descriptor in self.streams}

    def _unreported(self) -> bool:
        """The command was killed, yet no process reports its end: the one that would was killed or
        stopped."""
        if self.exited or self.killed is None or time.monotonic() < self.killed + REPORT:
            return False
        self.exited = self._killed()
        return True

    def _killed(self) -> Exited:
        return Exited(None, signal.SIGKILL, self.timed_out, not self.timed_out)

    def _end_command(self) -> None:
        """Ends all that belongs to the command. From any thread."""
        self._require_own()
        self._kill()
        self.killed = time.monotonic()

    def expire(self) -> None:
        """Ends the command if its time is up. From any thread: its follower may be slow, or missing."""
        with self.lock:
            if self.exited or self.killed is not None or not self._is_late():
                return
            self.timed_out = True
        self._end_command()

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
                self._kill()
                # Its follower went away, and no thread has seen how it ended.
                self.exited = self._killed()
        finally:
            if self.feed:
                self.feed.close()
                self.feed = None
            self._give_up_streams()
            for descriptor in (self.status, *self.hung_up):
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
        self._leave(left)

    @property
    def failure(self) -> str:
        return str(self.trouble or "")

    def cancel(self) -> None:
        self.cancelled = True
        self._end_command()

    def write(self, data: bytes) -> int:
        # It does not block: BlockingIOError says that the command does not read.
        with self.lock:
            return os.write(self._terminal(), data)

    def resize(self, rows: int, columns: int) -> None:
        with self.lock:
            set_size(self._terminal(), rows, columns)

    def _terminal(self) -> int:
        """Preconditions: the lock is held, so that it stays ours."""
        if self.terminal is None or self.terminal not in self.streams:
            raise ConfinementError("this command has no terminal, or has ended")
        return self.terminal


def set_size(terminal: int, rows: int, columns: int) -> None:
    from termios import TIOCSWINSZ

    fcntl.ioctl(terminal, TIOCSWINSZ, struct.pack("=HHHH", rows, columns, 0, 0))


def _room(descriptor: int) -> int:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    except OSError:
        return ROOM


class Unstarted:
    failure = ""
    left_running: tuple[str, ...] = ()

    def __init__(self, program: str, code: int, enforcement: Enforcement, newline: str = "\n") -> None:
        """`newline` is `\\r\\n` where a terminal was asked for, as one would have written it."""
        self.end = Exited(127 if code == errno.ENOENT else 126, None)
        self.message = os.fsencode(f"{program}: {os.strerror(code)}{newline}")
        self.enforcement = enforcement

    def events(self) -> Iterator[Event]:
        yield Output(Stream.STDERR, self.message)
        yield self.end

    def wait(self) -> CommandResult:
        return CommandResult(self.end.exit_code, None, b"", self.message, False, False, self.enforcement)

    def violations(self) -> tuple[Violation, ...]:
        return ()

    def cancel(self) -> None:
        """It has ended already."""

    def write(self, data: bytes) -> int:  # noqa: ARG002
        raise ConfinementError("this command has no terminal, or has ended")

    def resize(self, rows: int, columns: int) -> None:  # noqa: ARG002
        raise ConfinementError("this command has no terminal, or has ended")
