"""Ends the connections of a command for which the gate holds too much of the machine's memory for TCP.

The sandbox finds a command by its own sockets (`overuse`). What a command does not read waits in ours,
megabytes for each connection, and is found here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from pinfold.kernel.socket_memory import is_memory_short, memory_of, most_memory
from pinfold.network.connection import Way
from pinfold.network.refusal import Refusal, Why

LOOK = 2.0
"""Seconds between two looks."""
SHARE = 4
"""Who has less than this part of what there is may go on, however short it is."""


class Buffers(NamedTuple):
    """What the machine tells of its memory for TCP."""

    is_short: Callable[[], bool] = partial(is_memory_short, "TCP")
    most: Callable[[], int] = partial(most_memory, "TCP")


def end_heaviest(ways: Mapping[str, set[Way]], buffers: Buffers) -> None:
    """`ways` are those of each command, by its tag."""
    if not ways or not buffers.is_short():
        return
    taken = {tag: sum(memory_of(sock) for way in each for sock in way.sockets) for tag, each in ways.items()}
    tag, used = max(taken.items(), key=lambda each: each[1])
    most = buffers.most()
    if used * SHARE < most:
        return
    said = f"ended: the command let {used:,} bytes of TCP buffers wait, of {most:,} that all programs share"
    for way in tuple(ways[tag]):
        way.refuse(Refusal(Why.BUSY, said))
        way.break_off()
