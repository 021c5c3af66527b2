"""The host's way to the `hand`, which does what was granted: one deed at a time, from any thread."""

import _socket
import threading

from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host.keeper_client import Keeping
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import Deed

PATIENCE = 30.0
"""Seconds that the hand may take."""
GONE = "the process that does what was granted could not be reached"


class Hand:
    """The way to the process that does what was granted; it is made when there is something to do."""

    def __init__(self, keeping: Keeping) -> None:
        self.keeping = keeping
        self.lock = threading.Lock()
        self.number = 0
        self.way: _socket.socket | None = None
        self.closed = False

    def do(self, kind: str, deed: Deed) -> tuple[int, int | None]:
        """An errno, or CHANGED, and the descriptor that came of it."""
        with self.lock:
            try:
                if self.closed:
                    raise channel.Closed
                if self.way is None:
                    self.number, _, (self.way,) = self.keeping.ask(("hand",))
                    self.way.settimeout(PATIENCE)
                channel.send(self.way, (kind, deed.plain()))
                (error,), descriptors = channel.receive(self.way)
            except (channel.Closed, OSError, ConfinementError):
                self._end()
                raise ConfinementError(GONE) from None
            except BaseException:
                # Interrupted, as by Ctrl-C: what was granted to one caller must not be the next one's answer.
                self._end()
                raise
        return error, descriptors[0] if descriptors else None

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._end()

    def _end(self) -> None:
        """Preconditions: the lock is held."""
        if self.way is not None:
            self.way.close()
            self.way = None
            self.keeping.close(self.number)
