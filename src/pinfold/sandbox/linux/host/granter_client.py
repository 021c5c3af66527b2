"""The host's connection to the granter, which makes one granted change at a time."""

import _socket
import threading

from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host.keeper_client import Keeping
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import ChangeDone, GranterRequest
from pinfold.sandbox.linux.protocol.keeper import NewGranter

PATIENCE = 30.0
"""Seconds that the granter may take."""
GONE = "the process that makes granted changes could not be reached"


class GranterClient:
    """May be used from any thread. The keeper makes the granter when there is a first change."""

    def __init__(self, keeping: Keeping) -> None:
        self.keeping = keeping
        self.lock = threading.Lock()
        self.number = 0
        self.way: _socket.socket | None = None
        self.closed = False

    def ask(self, request: GranterRequest) -> tuple[int, int | None]:
        """An errno, or `CHANGED` or `COMPLETES`, and the descriptor of an open."""
        with self.lock:
            try:
                if self.closed:
                    raise channel.Closed
                if self.way is None:
                    self.number, _, (self.way,) = self.keeping.ask(NewGranter())
                    self.way.settimeout(PATIENCE)
                channel.send(self.way, request)
                done, descriptors = channel.receive(self.way, ChangeDone)
            except (channel.Closed, OSError, ConfinementError):
                self._end()
                raise ConfinementError(GONE) from None
            except BaseException:
                # Interrupted, as by Ctrl-C: what was granted to one caller must not be the next one's answer.
                self._end()
                raise
        return done.error, descriptors[0] if descriptors else None

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
