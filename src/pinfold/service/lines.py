"""Lines in and lines out, over a socket or a pair of descriptors.

Facts that shape it:
- A write that finds no room waits in the kernel. That is all the back-pressure there is: a thread that writes
  to a client which does not read waits, and so does the command whose output it is. Nothing is gathered here.
- A write to a client that has gone is EPIPE (Python ignores SIGPIPE), also if it goes during the write.
"""

import os
import socket
from _thread import allocate_lock
from collections.abc import Iterator
from contextlib import suppress

CHUNK = 1 << 16
LONGEST = 32 << 20
"""Bytes of one line; a file tool's text has to fit in."""


class TooLong(Exception):  # noqa: N818
    """A line without an end; nothing after it can be made out."""


class LineStream:
    """One client's line. Writing may be done from any thread, a whole line at a time."""

    def __init__(self, incoming: int, outgoing: int, held: socket.socket | None = None) -> None:
        self._in, self._out, self._socket = incoming, outgoing, held
        self._turn = allocate_lock()
        self._is_gone = False

    def __iter__(self) -> Iterator[bytes]:
        """What the client says, until it goes."""
        pieces: list[bytes] = []
        length = 0
        while piece := self._read():
            *ended, rest = piece.split(b"\n")
            for line in ended:
                yield b"".join((*pieces, line))
                pieces, length = [], 0
            if rest:
                pieces.append(rest)
                length += len(rest)
                if length > LONGEST:
                    raise TooLong

    def _read(self) -> bytes:
        try:
            return os.read(self._in, CHUNK)
        except OSError:
            return b""

    def write(self, line: bytes) -> bool:
        """Sends a line; False if the other side has gone."""
        with self._turn:
            rest = memoryview(line)
            while rest and not self._is_gone:
                try:
                    rest = rest[os.write(self._out, rest) :]
                except OSError:
                    self._is_gone = True
            return not self._is_gone

    def hang_up(self) -> None:
        """Wakes threads that wait in a write, and the reader; a pipe's other end does that by itself."""
        self._is_gone = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
