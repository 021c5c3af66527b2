"""How much of everything one session's gate gives, so that one program cannot take it from the others."""

from typing import NamedTuple

EACH, SPARE = 2, 128
"""Descriptors of one connection; and those that dials, look-ups and the gate itself need."""
FEWEST = 16


class Limits(NamedTuple):
    connections: int = 4096
    greeting: float = 30.0
    """Seconds a client may take to say what it wants."""
    decision: float = 10.0
    """Seconds the rules may take to answer."""
    answer: float = 600.0
    """Seconds a person may take."""
    leaving: float = 0.3
    """Seconds in which it is found out at the latest that who waited for an answer is gone."""
    lookup: float = 10.0
    dial: float = 20.0
    held: float = 30.0
    """Seconds that an opened way waits for the program's side of it."""
    idle: float = 3600.0
    """Seconds without a byte in either direction."""
    gone: float = 15.0
    """Seconds between two looks at whether a side that has ended is there still."""
    pause: float = 0.3
    """Seconds that the start of a line of text waits for its end."""

    def within(self, descriptors: int) -> "Limits":
        """With no more connections than a process may have descriptors for: beyond that all would fail."""
        return self._replace(connections=min(self.connections, max(FEWEST, (descriptors - SPARE) // EACH)))
