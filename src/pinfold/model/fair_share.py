"""How much one command may use of what all commands of a session share: connections, questions, threads.

INVARIANT: a command that holds nothing yet gets something until all is taken. A few commands together never
take all: each gets at most three quarters of what the others leave.
"""

from collections.abc import Iterable


def fair_share(most: int, others: int) -> int:
    """How many of `most` a command may hold while other commands hold `others`."""
    return max(1, (most - others) * 3 // 4)


def has_room(holders: Iterable[object], taker: object, most: int) -> bool:
    """Whether command `taker` gets one more; `holders` lists the command of each that is taken."""
    taken = list(holders)
    own = taken.count(taker)
    return len(taken) < most and own < fair_share(most, len(taken) - own)
