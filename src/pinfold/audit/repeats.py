"""Which connections and questions of a command are journaled: each new one, and some repeats. Pure."""

from collections import OrderedDict
from collections.abc import Hashable

MOST_OF_ONE = 256
"""Different things of one command that are counted apart; all further ones are one."""
MOST_OF_NONE = 4096
"""Of those without a known command, in a session."""
MOST_COMMANDS = 1024
REST = object()


class Repeats:
    """A command connects and asks as often as it likes, so it must not choose how many rows that takes.

    Precondition: one thread at a time.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[str, dict[Hashable, int]] = OrderedDict()

    def count(self, tag: str, what: Hashable, is_grant: bool = False) -> int:
        """How often it happened with this time, where that is to be written down; else 0. Each new grant is:
        a person gives no more than so many."""
        counts = self._counts.setdefault(tag, {})
        self._counts.move_to_end(tag)
        if len(self._counts) > MOST_COMMANDS:
            self._counts.popitem(last=False)
        if what not in counts and len(counts) >= (MOST_OF_ONE if tag else MOST_OF_NONE):
            if is_grant:
                return 1
            what = REST
        times = counts[what] = counts.get(what, 0) + 1
        return 0 if times & times - 1 else times
