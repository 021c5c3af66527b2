"""Moves bytes from one socket to another as they come.

Facts measured on Linux 6.18, two cores, loopback, 1 GB: with a buffer of 128 KiB the transfer takes 0.31 s,
with 1 MiB 0.35 s, though that takes fewer calls, and with 64 KiB 0.43 s. splice(2) through a pipe takes the
least processor time, and yet the transfer is not faster.

One buffer serves every connection, since no pump waits between reading and writing. Only what a slow reader
does not take is kept, and while much is kept, reads are small. So memory is bounded for all of them together.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from pinfold.network.limits import GateLimits
from pinfold.network.socket_wait import enable_keepalive, is_gone

FAST, LEAST, SLOW = 1 << 17, 1 << 16, 1 << 14
INSPECTED = 1 << 13
"""What is inspected at once: TLS records of one byte take 0.3 us a byte, and nothing else moves meanwhile."""
MOST_KEPT = 64 << 20
_BUFFER = bytearray(FAST)
_VIEW = memoryview(_BUFFER)
_kept = 0


class SocketPump:
    """One direction, from `start` until the source ends or either side fails."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._source, self._sink = source, sink
        # By number: for an unwatched socket object asyncio asks the kernel for both its addresses.
        self._reads, self._writes = source.fileno(), sink.fileno()
        self._rest = memoryview(b"")
        self._keeps = 0
        self._is_started = False
        self._takes = FAST
        """How much the sink took lately. What it leaves must be copied, so no more than that is read."""
        self.moved = 0
        self.inspect: Callable[[bytes], bool] | None = None
        """Inspects each piece before it passes. If it returns False, it has handled the piece itself."""
        self.is_whole: bool | None = None
        """True if the source came to its end, False if it broke, None until then."""
        self.ended: Callable[[], None] | None = None
        """Called once, when the pump ends by itself."""

    def start(self) -> None:
        if self.is_whole is None and not self._is_started:
            self._is_started = True
            self._loop.add_reader(self._reads, self._read)

    def stop(self) -> None:
        """Ends the pump: it reads and writes nothing more."""
        self.ended = None
        self._finish(False)

    def _read(self) -> None:
        try:
            size = self._takes if self.inspect is None else INSPECTED
            count = self._source.recv_into(_BUFFER, size if _kept < MOST_KEPT else SLOW)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.break_off()
            return
        if not count:
            self._end()
            return
        if self.inspect is None or self.inspect(bytes(_VIEW[:count])):
            self.push(_VIEW[:count])

    def push(self, data: memoryview) -> None:
        """Sends these bytes as if it had read them. Preconditions: it is started, and keeps nothing."""
        self.moved += len(data)
        sent = self._send(data)
        if sent == len(data):
            self._takes = min(FAST, 2 * self._takes) if sent == self._takes else self._takes
        elif self.is_whole is None:
            self._takes = max(LEAST, sent)
            self._keep(bytes(data[sent:]))
            self._loop.remove_reader(self._reads)
            self._loop.add_writer(self._writes, self._write)

    def _write(self) -> None:
        self._rest = self._rest[self._send(self._rest) :]
        if not self._rest and self.is_whole is None:
            self._keep(b"")
            self._loop.remove_writer(self._writes)
            self._loop.add_reader(self._reads, self._read)

    def _send(self, data: memoryview) -> int:
        try:
            return self._sink.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.break_off()
            return 0

    def _keep(self, rest: bytes) -> None:
        global _kept
        _kept += len(rest) - self._keeps
        self._rest, self._keeps = memoryview(rest), len(rest)

    def _end(self) -> None:
        """Passes the end of the source on to the sink; the other direction goes on."""
        with suppress(OSError):
            self._sink.shutdown(socket.SHUT_WR)
        self._finish(True)

    def break_off(self) -> None:
        """Closes both sides, so that the program, the server and other tasks see that nothing more comes."""
        for sock in (self._source, self._sink):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._finish(False)

    def probe_source(self, each: float) -> None:
        """Preconditions: it has ended."""
        enable_keepalive(self._source, each)

    @property
    def is_source_gone(self) -> bool:
        return is_gone(self._source)

    def _finish(self, is_whole: bool) -> None:
        if self.is_whole is not None:
            return
        self.is_whole = is_whole
        if self._is_started:
            self._loop.remove_reader(self._reads)
        if self._keeps:
            self._loop.remove_writer(self._writes)
            self._keep(b"")
        if self.ended:
            self.ended()


class Relay:
    """Two pumps, until both ended, one broke, the side that ended is gone, or no data came for a while.

    Calls `ended` with the reason in the last case, and with an empty text in the others.
    """

    def __init__(self, pumps: Sequence[SocketPump], limits: GateLimits, ended: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pumps, self._idle, self._gone, self._ended = pumps, limits.idle, limits.gone, ended
        self._before, self._is_over = self._moved, False
        self._timer = self._loop.call_later(self._idle, self._look_for_motion)
        self._silent: SocketPump | None = None
        """The pump whose source has ended, while the other one goes on."""
        for pump in pumps:
            pump.ended = self._look
        self._look()

    def stop(self) -> None:
        """Ends it without calling `ended`."""
        self.detach()
        for pump in self._pumps:
            pump.stop()

    def detach(self) -> None:
        """Lets the pumps go on under another owner."""
        self._is_over = True
        self._timer.cancel()
        for pump in self._pumps:
            pump.ended = None

    @property
    def _moved(self) -> int:
        return sum(pump.moved for pump in self._pumps)

    def _look(self) -> None:
        ends = [pump.is_whole for pump in self._pumps]
        if not self._is_over and (False in ends or None not in ends):
            self._end("")
        elif not self._is_over and self._silent is None and True in ends:
            self._silent = self._pumps[ends.index(True)]
            self._silent.probe_source(self._gone)
            self._look_for_source()

    def _look_for_source(self) -> None:
        """Checks whether the program behind the ended side is gone: the other side may never send again."""
        if self._is_over or self._silent is None:
            return
        if self._silent.is_source_gone:
            self._end("")
        else:
            self._loop.call_later(self._gone, self._look_for_source)

    def _look_for_motion(self) -> None:
        if self._before == self._moved:
            self._end(f"no data for {self._idle:g} seconds")
        else:
            self._before = self._moved
            self._timer = self._loop.call_later(self._idle, self._look_for_motion)

    def _end(self, word: str) -> None:
        self.stop()
        self._ended(word)


async def run(pumps: Sequence[SocketPump], limits: GateLimits) -> str:
    """Runs a `Relay` to its end; returns the reason that it gave."""
    over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    passing = Relay(pumps, limits, over.set_result)
    try:
        return await over
    finally:
        passing.stop()
