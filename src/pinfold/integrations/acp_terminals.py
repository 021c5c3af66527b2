"""A command that an agent runs in a terminal: its output and status, kept until they are asked for."""

import signal
import threading
from contextlib import suppress
from typing import Any

from pinfold.model.errors import PinfoldError
from pinfold.model.escape_text import visible
from pinfold.model.events import Output
from pinfold.session.execution import Execution

CONTINUED = bytes(range(0x80, 0xC0))
"""What the bytes of a character of UTF-8 are, from the second on."""
LONGEST_REST = 3


class Terminal:
    """A command of the agent's: its output is kept from the end, until it is released."""

    def __init__(self, execution: Execution, limit: int) -> None:
        self._execution = execution
        self._limit = limit
        self._lock = threading.Lock()
        self._kept = bytearray()
        self.is_truncated = False
        self.status: dict[str, Any] | None = None
        self.ended = threading.Event()
        threading.Thread(target=self._follow, name="pinfold-terminal", daemon=True).start()

    def _follow(self) -> None:
        status: dict[str, Any] = {"exitCode": None, "signal": None}
        try:
            for event in self._execution.events():
                if isinstance(event, Output):
                    self._keep(event.data)
                else:
                    status = {"exitCode": event.exit_code, "signal": _signal_name(event.signal)}
            for line in self._execution.left_running:
                self._keep(f"[{visible(line)}]\n".encode())
            for each in self._execution.violations:
                self._keep(f"[{each.summary}]\n".encode())
        except PinfoldError as error:
            self._keep(f"[{error}]\n".encode())
        finally:
            self.status = status
            self.ended.set()

    def _keep(self, data: bytes) -> None:
        with self._lock:
            self._kept += data
            if len(self._kept) > self._limit:
                self.is_truncated = True
                del self._kept[: len(self._kept) - self._limit]

    @property
    def text(self) -> str:
        with self._lock:
            kept = bytes(self._kept)
        # What is left of a character that was cut goes too; a longer run of such bytes is no character's.
        if self.is_truncated:
            kept = kept[:LONGEST_REST].lstrip(CONTINUED) + kept[LONGEST_REST:]
        return kept.decode("utf-8", "replace")

    def kill(self) -> None:
        self._execution.cancel()


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    with suppress(ValueError):
        return signal.Signals(number).name
    return str(number)
