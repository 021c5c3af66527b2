"""A command under way whose bytes a pump carries, in a pen or without one: followed, ended and typed to."""

import fcntl
import os
import struct
from collections.abc import Iterator

from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event, Exited
from pinfold.sandbox.command_io import Pump


class PumpedCommand:
    pump: Pump
    terminal: int | None = None
    """Our side of its terminal, if it has one."""
    cancelled = False
    left_running: tuple[str, ...] = ()

    @property
    def end(self) -> Exited | None:
        return self.pump.known_end()

    @property
    def failure(self) -> str:
        return str(self.pump.failure or "")

    def events(self) -> Iterator[Event]:
        return self.pump.events()

    def cancel(self) -> None:
        self.cancelled = True
        self.pump.end_command()

    def write(self, data: bytes) -> int:
        # It does not block: BlockingIOError says that the command does not read.
        with self.pump.lock:
            return os.write(self._terminal(), data)

    def resize(self, rows: int, columns: int) -> None:
        with self.pump.lock:
            set_size(self._terminal(), rows, columns)

    def _terminal(self) -> int:
        """Preconditions: the pump's lock is held, so that it stays ours."""
        if self.terminal is None or self.terminal not in self.pump.streams:
            raise ConfinementError("this command has no terminal, or has ended")
        return self.terminal


def set_size(terminal: int, rows: int, columns: int) -> None:
    from termios import TIOCSWINSZ

    fcntl.ioctl(terminal, TIOCSWINSZ, struct.pack("=HHHH", rows, columns, 0, 0))
