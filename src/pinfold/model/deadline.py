"""The time by which an answer is due. Code that works long calls `require_time` now and then."""

from time import monotonic


class DeadlinePassed(Exception):  # noqa: N818 - nothing went wrong
    """The time for an answer is over."""


class Deadline:
    def __init__(self, seconds: float | None = None) -> None:
        """Without `seconds`, the deadline never passes."""
        self.seconds = seconds
        self._end = None if seconds is None else monotonic() + seconds

    @property
    def is_past(self) -> bool:
        return self._end is not None and monotonic() > self._end

    def require_time(self) -> None:
        if self.is_past:
            raise DeadlinePassed


NEVER = Deadline()
