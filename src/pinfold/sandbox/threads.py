"""A thread that pinfold works on by itself, begun or not: one that is not there must not count as there.

Facts (threading): where a user has as many threads as may be, `start` raises RuntimeError; who joins a thread
that was never started gets one, too. Python does not wait for daemons at its end.
"""

import threading
from collections.abc import Callable
from errno import EAGAIN

from pinfold.model.errors import ConfinementError

IN_THE_MIDDLE = (
    "this is in the middle of a command's start, as a signal's handler may be: "
    "raise an exception there, and close the session where it is caught"
)


def begin_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Raises OSError if there can be no more, as other things do that the system has no more of."""
    thread = threading.Thread(target=work, name=f"pinfold-{name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(EAGAIN, "no more threads can be started") from None
    return thread


def require_free(lock: threading.RLock) -> None:
    """Raises if this thread has the lock already. A signal's handler runs in the middle of whatever its
    thread does, and would wait for itself, or go on with what is half done."""
    if lock._is_owned():  # type: ignore[attr-defined]  # what a Condition asks of each lock
        raise ConfinementError(IN_THE_MIDDLE)
