"""How much of everything one session's gate gives, so that one program cannot take it from the others.

The gate also ends the connections of a command that makes it hold too much of the machine's memory for TCP.
The sandbox finds a command by its own sockets (`overuse`). What a command does not read waits in the gate's
sockets, megabytes for each connection, and is found here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from pinfold.kernel.socket_info import is_memory_short, memory_of, most_memory
from pinfold.network.connection import GateConnection
from pinfold.network.refusal import Refusal, RefusalKind

EACH, SPARE = 2, 128
"""Descriptors of one connection, and those that dials, look-ups and the gate itself need."""
FEWEST = 16


class GateLimits(NamedTuple):
    connections: int = 4096
    greeting: float = 30.0
    """Seconds a client may take to send its request."""
    decision: float = 10.0
    """Seconds the rules may take to answer."""
    answer: float = 600.0
    """Seconds a person may take."""
    leaving: float = 0.3
    """Seconds within which the gate notices that a program has stopped waiting for an answer."""
    lookup: float = 10.0
    dial: float = 20.0
    held: float = 30.0
    """Seconds that an opened connection waits for the program's side of it."""
    idle: float = 3600.0
    """Seconds without a byte in either direction."""
    gone: float = 15.0
    """Seconds between two checks whether the program behind a side that ended still exists."""
    pause: float = 0.3
    """Seconds that the gate holds the start of a text line while it waits for the end."""

    def within(self, descriptors: int) -> "GateLimits":
        """These limits, with no more connections than the process may have descriptors for."""
        return self._replace(connections=min(self.connections, max(FEWEST, (descriptors - SPARE) // EACH)))


LOOK = 2.0
"""Seconds between two looks."""
SHARE = 4
"""A command with less than this part of all the memory keeps its connections, however short memory is."""


class Buffers(NamedTuple):
    """What the machine reports about its memory for TCP."""

    is_short: Callable[[], bool] = partial(is_memory_short, "TCP")
    most: Callable[[], int] = partial(most_memory, "TCP")


def end_heaviest(connections: Mapping[str, set[GateConnection]], buffers: Buffers) -> None:
    """Ends the connections of the command that holds most, if memory is short. The keys are command tags."""
    if not connections or not buffers.is_short():
        return
    taken = {
        tag: sum(memory_of(sock) for connection in each for sock in connection.sockets)
        for tag, each in connections.items()
    }
    tag, used = max(taken.items(), key=lambda each: each[1])
    most = buffers.most()
    if used * SHARE < most:
        return
    said = f"closed: the command left {used:,} bytes unread in TCP buffers, of {most:,} for the whole machine"
    for connection in tuple(connections[tag]):
        connection.refuse(Refusal(RefusalKind.BUSY, said))
        connection.break_off()
