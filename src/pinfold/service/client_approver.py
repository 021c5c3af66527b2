"""A client as an approver: a question goes out as an event, and the answer comes back as a call.

The client is a program of the user's, such as an editor with a person in front of it. What an agent runs
cannot reach it: nothing inside a pen gets at our line.
"""

from collections.abc import Callable
from threading import Event, Lock
from typing import Any

from pinfold.model.permission import LONGEST_QUESTION, Answer, PermissionNeeded
from pinfold.service.messages import INVALID_PARAMS, Fault
from pinfold.session.serialize import question_as_plain

Tell = Callable[[str, dict[str, Any]], bool]
"""Sends an event; False if the client has gone."""


class _PendingQuestion:
    def __init__(self, question: PermissionNeeded) -> None:
        self.question = question
        self.answer: Answer | None = None
        self.settled = Event()


class ClientApprover:
    """May be used from any thread. `call_of` finds the execution that a question is about."""

    name = "the client"

    def __init__(self, tell: Tell, call_of: Callable[[PermissionNeeded], str]) -> None:
        self._tell, self._call_of = tell, call_of
        self._lock = Lock()
        self._open: dict[str, _PendingQuestion] = {}
        self._is_closed = False
        self.asks = True
        """Whether the client puts questions to a person; else they are the next approver's."""

    def is_there(self) -> bool:
        return self.asks

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        asked = _PendingQuestion(question)
        with self._lock:
            if self._is_closed or not self.asks:
                return None
            self._open[question.request_id] = asked
        told = question_as_plain(question)
        told["toolCallId"] = told["toolCallId"] or self._call_of(question) or None
        if not self._tell("permissionNeeded", told):
            self._take(question.request_id)
            return None
        if not asked.settled.wait(LONGEST_QUESTION) and self._take(question.request_id):
            self._tell("permissionWithdrawn", {"requestId": question.request_id, "why": "too late"})
        return asked.answer or Answer.NO

    def answer(self, request_id: str, answer: Answer) -> None:
        with self._lock:
            asked = self._open.get(request_id)
            if asked is None:
                said = f"no question `{request_id}` is open: it was answered, withdrawn or never put"
                raise Fault(INVALID_PARAMS, "invalid", said)
            if answer not in asked.question.choices:
                said = f"`{answer}` was not offered; there are: {', '.join(asked.question.choices)}"
                raise Fault(INVALID_PARAMS, "invalid", said)
            del self._open[request_id]
            asked.answer = answer  # before another thread finds it taken
        asked.settled.set()

    def withdraw(self, question: PermissionNeeded) -> None:
        """Closes a question without an answer: the program that wanted it has ended, for instance."""
        self.withdraw_all(lambda other: other.request_id == question.request_id, "its command does not wait")

    def withdraw_all(self, is_of: Callable[[PermissionNeeded], bool], why: str) -> None:
        """Those questions are answered with no."""
        with self._lock:
            gone = [each for each in self._open.values() if is_of(each.question)]
            for each in gone:
                del self._open[each.question.request_id]
        for each in gone:
            each.settled.set()
            self._tell("permissionWithdrawn", {"requestId": each.question.request_id, "why": why})

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            gone, self._open = self._open, {}
        for each in gone.values():
            each.settled.set()

    def _take(self, request_id: str) -> bool:
        with self._lock:
            return self._open.pop(request_id, None) is not None
