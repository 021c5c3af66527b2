"""A client of the proxy's that has not said yet what it wants. It is waited for without a task of its own."""

import asyncio
from collections.abc import Callable

from pinfold.network.connection import Way

_PIECE = 65536


class Greeting:
    def __init__(self, way: Way, seconds: float, heard: Callable[["Greeting", bytes], None]) -> None:
        """`heard` is called once: with the client's first bytes, or with none if they do not come in time."""
        self.way, self._heard = way, heard
        self._loop = asyncio.get_running_loop()
        self._number = way.client.fileno()
        self._timer = self._loop.call_later(seconds, self._end, b"")
        self._loop.add_reader(self._number, self._read)

    def stop(self) -> None:
        """It is not waited for any more."""
        self._timer.cancel()
        self._loop.remove_reader(self._number)

    def _read(self) -> None:
        try:
            data = self.way.client.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._end(data)

    def _end(self, data: bytes) -> None:
        self.stop()
        self._heard(self, data)
