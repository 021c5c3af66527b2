"""The questions on the page now, and the requests that wait to see others."""

import secrets
from collections.abc import Callable
from threading import Condition
from time import monotonic
from typing import NamedTuple

from pinfold.web.wire import AnswerReceipt, PageAnswer, PageQuestion

MOST = 200
"""Questions that are open at once; more are not taken."""

Give = Callable[[PageAnswer], AnswerReceipt | None]
"""Passes an answer to the session that asked; None if it does not wait any more."""


class OpenQuestion(NamedTuple):
    id: str
    content: PageQuestion
    deadline: float
    give: Give


class OpenQuestions:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._version = 0
        self._standing: dict[str, OpenQuestion] = {}

    def put(self, content: PageQuestion, give: Give) -> OpenQuestion | None:
        """None if there is no room."""
        standing = OpenQuestion(secrets.token_hex(16), content, monotonic() + content.seconds, give)
        with self._changed:
            if len(self._standing) >= MOST:
                return None
            self._standing[standing.id] = standing
            self._change()
        return standing

    def remove(self, standing: OpenQuestion) -> None:
        with self._changed:
            if self._standing.pop(standing.id, None):
                self._change()

    def _change(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def wait_for_news(self, seen: int, seconds: float) -> tuple[int, list[OpenQuestion]]:
        """The open questions, the oldest first, as soon as they differ from those already seen."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, seconds)
            return self._version, list(self._standing.values())

    def answer(self, id: str, given: PageAnswer) -> AnswerReceipt | None:
        """None if it is not open any more."""
        with self._changed:
            standing = self._standing.get(id)
        if standing is None:
            return None
        offered = [each for each in standing.content.offered if each.reach is given.reach]
        if not offered or given.answer not in [choice.answer for choice in offered[0].choices]:
            return AnswerReceipt("that was not offered")
        heard = standing.give(given)
        if heard and not heard.trouble:
            self.remove(standing)  # the session hangs up too, but only when it gets to that
        return heard
