"""A tool's call at work: it runs on a thread, may be held there by questions, and outlives its request."""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import anyio

from pinfold.integrations.tools import Tool, ToolOutcome, use
from pinfold.model.escape_text import visible
from pinfold.model.permission import LONGEST_QUESTION, Answer, PermissionNeeded
from pinfold.session import Session
from pinfold.session.execution import Execution

RUNNING = ("execute_command", "start_process")
"""Tools whose calls run a command."""
TAIL = 2000
"""Bytes of a command's output that a notice is made of."""
LONGEST_LINE = 200
"""Characters of a notice."""


class McpQuestion:
    """A question on its way to the client, and the answer."""

    def __init__(self, question: PermissionNeeded) -> None:
        self.question = question
        self.answer: Answer | None = None
        self.settled = threading.Event()
        self.is_lost = False
        """Whether the client never came back with an answer."""
        self.scope: anyio.CancelScope | None = None
        """In which the client is being asked."""

    def settle(self, answer: Answer | None) -> None:
        """The first time counts."""
        if not self.settled.is_set():
            self.answer = answer
            self.settled.set()

    def stop(self) -> None:
        """On the loop: the client is asked no longer."""
        if self.scope is not None:
            self.scope.cancel()


class McpCall:
    """A tool's call: it runs on a thread, and tells its loop what it asks and how it ended."""

    def __init__(self, tool: Tool, arguments: dict[str, Any]) -> None:
        self.tool, self.arguments = tool, arguments
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[McpQuestion | ToolOutcome | Exception] = asyncio.Queue()
        self._lock = threading.Lock()
        self._execution: Execution | None = None
        self._open: list[McpQuestion] = []
        self._is_cancelled = False
        self._is_over = False
        self._began = time.monotonic()
        self._last = b""
        """The end of what its command wrote."""

    @property
    def seconds(self) -> float:
        """For how long it has been at work."""
        return round(time.monotonic() - self._began, 1)

    @property
    def last_line(self) -> str:
        """The last line that its command wrote, in visible characters."""
        lines = [line for line in self._last.decode("utf-8", "replace").splitlines() if line.strip()]
        return visible(lines[-1].strip())[-LONGEST_LINE:] if lines else ""

    def begin(self, session: Session) -> None:
        def work() -> None:
            try:
                self._tell(use(self.tool, session, self.arguments, self._started, self._wrote))
            except Exception as error:  # noqa: BLE001  (raised again where the client waits)
                self._tell(error)

        threading.Thread(target=work, name=f"pinfold-{self.tool.name}", daemon=True).start()

    def _tell(self, said: "McpQuestion | ToolOutcome | Exception") -> None:
        try:
            self._loop.call_soon_threadsafe(self._told.put_nowait, said)
        except RuntimeError:  # the loop is closed: the client has gone
            self.cancel()

    def _started(self, execution: Execution) -> None:
        with self._lock:
            self._execution = execution
            is_cancelled = self._is_cancelled
        if is_cancelled:
            execution.cancel()

    def _wrote(self, data: bytes) -> None:
        self._last = (self._last + data)[-TAIL:]

    def is_about(self, question: PermissionNeeded) -> bool:
        if self.tool.name in RUNNING:
            return question.command == self.arguments.get("command")
        return bool(question.operation) and question.operation in self.tool.name

    def ask(self, question: PermissionNeeded) -> Answer | None:
        """From an approver's thread: None if the client cannot ask a person."""
        asked = McpQuestion(question)
        with self._lock:
            if self._is_cancelled or self._is_over:
                return Answer.NO if self._is_cancelled else None
            self._open.append(asked)
        self._tell(asked)
        if not asked.settled.wait(LONGEST_QUESTION):
            asked.is_lost = True
            asked.settle(Answer.NO)
        return asked.answer

    def withdraw(self, question: PermissionNeeded) -> None:
        """Takes a question back that no answer is wanted for any more. May be called from any thread."""
        with self._lock:
            found = [each for each in self._open if each.question.request_id == question.request_id]
        for each in found:
            each.settle(Answer.NO)
            with suppress(RuntimeError):  # the loop is closed: the client has gone
                self._loop.call_soon_threadsafe(each.stop)

    async def next(self) -> "McpQuestion | ToolOutcome":
        said = await self._told.get()
        if isinstance(said, Exception):
            raise said
        return said

    def finish(self) -> None:
        """Marks the call as answered: questions that are still open belong to what it left running."""
        with self._lock:
            self._is_over = True
            asked = self._open
        for each in asked:
            each.settle(None)

    def cancel(self) -> None:
        """The client does not wait for it any more."""
        with self._lock:
            self._is_cancelled = True
            execution, asked = self._execution, self._open
        for each in asked:
            each.settle(Answer.NO)
        if execution is not None:
            execution.cancel()
