"""The time by which an answer is due. Code that works long calls `require_time` now and then.

On a busy machine a thread waits most of the time for its turn. That time is not held against an answer until
`BUSY` times as much has passed: a command is not denied because a build runs beside it.
"""

from threading import get_ident
from time import monotonic, thread_time

BUSY = 5
"""Times as long an answer may take by the clock as its thread may work on it. Agents wait for a minute."""


class DeadlinePassed(Exception):  # noqa: N818 - nothing went wrong
    """The time for an answer is over."""


class Deadline:
    def __init__(self, seconds: float | None = None) -> None:
        """Without `seconds`, the deadline never passes."""
        self.seconds = seconds
        self._began = monotonic()
        self._thread, self._worked = get_ident(), thread_time()

    @property
    def is_past(self) -> bool:
        if self.seconds is None:
            return False
        passed = monotonic() - self._began
        if passed <= self.seconds:
            return False
        is_own = get_ident() == self._thread
        return passed > self.seconds * BUSY or not is_own or thread_time() - self._worked > self.seconds

    def require_time(self) -> None:
        if self.is_past:
            raise DeadlinePassed


NEVER = Deadline()
