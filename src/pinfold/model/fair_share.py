"""How much one command may have of what all commands of a session share: connections, questions, threads.

INVARIANT: a command that has nothing yet gets something until all is taken, and a few commands together never
take all: each has at most three quarters of what the others leave.
"""

from collections.abc import Iterable


def fair_share(most: int, others: int) -> int:
    """How many of `most` a command may have where others have so many."""
    return max(1, (most - others) * 3 // 4)


def has_room(holders: Iterable[object], taker: object, most: int) -> bool:
    """Whether a command gets one more; `holders` names the command of each that is taken."""
    taken = list(holders)
    own = taken.count(taker)
    return len(taken) < most and own < fair_share(most, len(taken) - own)
