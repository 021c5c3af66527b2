"""Tells a person at a terminal, once, what takes so long where beginning a command does: a hook of theirs is
asked, or all of its project is looked through for what is hidden or protected.

A timer of the process rings in the main thread, between two steps of the search: a thread would have to be
started for every command, and hardly one takes that long.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pinfold.approval.terminal_turn import Turn
from pinfold.cli.common import short
from pinfold.cli.draw import tell
from pinfold.model.escape_text import visible

SECONDS = 1.0


@contextmanager
def patience(roots: Sequence[str], turn: Turn) -> Iterator[None]:
    """While this lasts. Whoever holds the terminal's `turn` is asking, and is not disturbed.

    Preconditions: the main thread.
    """
    if not sys.stderr or not sys.stderr.isatty():
        yield
        return

    def ring(_: int, __: object) -> None:
        if not turn.locked():
            tell(_what_takes_long(roots))

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _what_takes_long(roots: Sequence[str]) -> str:
    from pinfold.session.hooks import awaited

    if awaited:
        hooks = ", ".join(f"`{visible(name)}`" for name in awaited)
        return f"waiting for what {hooks} says, as `hooks.before_command` wants"
    where = ", ".join(visible(short(root)) for root in roots)
    return f"looking through {where} for what is hidden or protected; a smaller --project takes less"
