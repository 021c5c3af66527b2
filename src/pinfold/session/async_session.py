"""The session for asyncio hosts: the same stages, each run on threads, so that the loop never waits.

A cancelled task cancels its command. Output is handed over in pieces and no faster than it is taken.

Facts about asyncio that shape it:
- A loop that ends cancels every task it has, but no thread's future: what must not be given up is no task.
- Work that waits for a thread is dropped when its future is cancelled; work that a thread has begun goes on.
- `asyncio.to_thread` has some ten threads for the whole process, and the host may keep them all busy.
- Python does not end before the threads of `concurrent.futures` have, and one may wait for a command. Work
  that they have no thread for stays queued, although its caller got an exception.

What this means for us: work that ends something has threads of its own (`Endings`), and no task can cancel
it. None of ours keeps Python from its end (`Workers`).
"""

import asyncio
import os
import queue
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from pinfold.model.decision import Decision
from pinfold.model.errors import ConfinementError
from pinfold.model.events import Event
from pinfold.model.handed_streams import HandedStreams
from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import Request, RunCommand
from pinfold.sandbox.threads import Workers
from pinfold.session.execution import Execution
from pinfold.session.open_parts import CLOSED
from pinfold.session.result import Result
from pinfold.session.session import Session

if TYPE_CHECKING:
    from pinfold.approval import Approver

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE = 128
"""Commands that may run at the same time; more wait for their turn."""
ENDING_AT_ONCE = 16
"""Commands that are being ended at the same time: each takes moments."""
TURNS = 5
"""Turns of the loop after which it has closed an iterator that no task refers to any more."""
HELD = 64
"""Pieces of output that may wait to be taken."""


class Endings:
    """Threads on which commands and the session end, and nothing else. They are never shut down: a command
    may be ended, again, after its session."""

    def __init__(self) -> None:
        self.threads = Workers("ending", ENDING_AT_ONCE, stay=False)

    async def do(self, end: Callable[[], None]) -> None:
        """Runs `end` to its end, even if the task that waits for it is cancelled."""
        await asyncio.shield(asyncio.wrap_future(given(self.threads, end)))

    def end_started(self, starting: "Future[Execution]") -> None:
        """No task waits for this start any more: ends the command, and waits for its end."""
        if not starting.cancelled() and starting.exception() is None:
            given(self.threads, partial(_end, starting.result()))


class CommandThreads:
    """The threads that start a session's commands, and those that follow them."""

    def __init__(self, session: Session) -> None:
        self.starting = Workers("command", AT_ONCE)
        self.endings = Endings()
        self._session = session

    @property
    def following(self) -> Workers:
        """After the session has ended, results can still be asked for."""
        return self.endings.threads if self._session.is_closed else self.starting


class AsyncSession:
    """Takes what `Session` takes, and does what it does. `session` is the `Session` underneath, for what is
    not here: its file tools, for instance, which are called on a thread (`asyncio.to_thread`)."""

    def __init__(
        self,
        projects: Sequence[str | os.PathLike[str]] = (),
        *,
        settings: str | os.PathLike[str] | Mapping[str, object] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        approvers: "Sequence[Approver]" = (),
        conversation: str = "",
        generation: str = "",
        model: str = "",
        resume: str = "",
        notes_reads: bool = False,
        one_command: bool = False,
        scratch: str = "",
    ) -> None:
        self.session = Session(
            projects,
            settings=settings,
            cwd=cwd,
            overrides=overrides,
            environ=environ,
            approvers=approvers,
            conversation=conversation,
            generation=generation,
            model=model,
            resume=resume,
            notes_reads=notes_reads,
            one_command=one_command,
            scratch=scratch,
        )
        self._threads = CommandThreads(self.session)

    @property
    def id(self) -> str:
        """By which it can be resumed."""
        return self.session.id

    @property
    def roots(self) -> tuple[str, ...]:
        """As `Session.roots`."""
        return self.session.roots

    @property
    def notices(self) -> tuple[str, ...]:
        """As `Session.notices`."""
        return self.session.notices

    @property
    def policy(self) -> SandboxPolicy:
        """As `Session.policy`."""
        return self.session.policy

    async def check(self, request: Request | str | Sequence[str]) -> Decision:
        """As `Session.check`."""
        return await self._on_thread(self.session.check, request)

    async def check_path(self, path: str | os.PathLike[str], *, write: bool = False) -> Decision:
        """As `Session.check_path`."""
        return await self._on_thread(self.session.check_path, path, write=write)

    async def permit_tool(
        self,
        tool: str,
        *,
        reads: Sequence[str | os.PathLike[str]] = (),
        writes: Sequence[str | os.PathLike[str]] = (),
        deletes: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        """As `Session.permit_tool`."""
        await self._on_thread(self.session.permit_tool, tool, reads=reads, writes=writes, deletes=deletes)

    async def add_project(self, path: str | os.PathLike[str]) -> None:
        """As `Session.add_project`."""
        await self._on_thread(self.session.add_project, path)

    async def change(self, overrides: Mapping[str, object]) -> None:
        """As `Session.change`."""
        await self._on_thread(self.session.change, overrides)

    async def run(
        self,
        request: RunCommand | str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Result:
        """As `Session.run`."""
        started = self.start(request, cwd=cwd, timeout=timeout, stdin=stdin, environment=environment)
        return await (await started).wait()

    async def start(
        self,
        request: RunCommand | str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        stdin: bytes | int | None = None,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
        streams: HandedStreams = HandedStreams(),  # noqa: B008  (it is frozen)
        umask: int | None = None,
        is_background: bool = False,
    ) -> "AsyncExecution":
        """As `Session.start`. A task that is cancelled while a person is asked withdraws the question."""
        start = partial(
            self.session.start,
            request,
            cwd=cwd,
            timeout=timeout,
            stdin=stdin,
            environment=environment,
            terminal=terminal,
            streams=streams,
            umask=umask,
            is_background=is_background,
        )
        return await self._started(lambda is_withdrawn: start(is_withdrawn=is_withdrawn))

    async def retry(self, needed: PermissionNeeded, answer: Answer = Answer.ONCE) -> "AsyncExecution":
        """As `Session.retry`."""
        return await self._started(lambda _: self.session.retry(needed, answer))

    async def _started(self, start: Callable[[Callable[[], bool]], Execution]) -> "AsyncExecution":
        self._require_open()
        left = Flag()
        starting = given(self._threads.starting, partial(start, left.is_set))
        try:
            return AsyncExecution(await asyncio.wrap_future(starting), self._threads)
        except asyncio.CancelledError:
            left.set()
            starting.add_done_callback(self._threads.endings.end_started)
            raise

    async def close(self) -> None:
        """As `Session.close`."""
        await self._threads.endings.do(self.session.close)
        self._threads.starting.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _on_thread(self, function: Callable[P, R], *args: P.args, **more: P.kwargs) -> R:
        self._require_open()
        return await asyncio.wrap_future(given(self._threads.starting, partial(function, *args, **more)))

    def _require_open(self) -> None:
        if self.session.is_closed:
            raise ConfinementError(CLOSED)


def given(threads: Workers, work: Callable[[], R]) -> "Future[R]":
    """The future result of the work. Raises ConfinementError if no thread can be started for it."""
    future: Future[R] = Future()

    def do() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised again where it is waited for)
            future.set_exception(error)

    try:
        threads.give(do)
    except RuntimeError:
        raise ConfinementError("no more threads can be started; nothing was done") from None
    return future


def _handed(taken: "queue.Queue[object]", event: object, is_gone: Callable[[], bool]) -> bool:
    """Waits until the queue has room; False once its reader has gone."""
    while not is_gone():
        with suppress(queue.Full):
            taken.put(event, timeout=0.2)
            return True
    return False


def _end(execution: Execution) -> None:
    execution.cancel()
    execution.wait()


class AsyncExecution:
    """A command under way, or refused."""

    def __init__(self, execution: Execution, threads: "CommandThreads") -> None:
        self.execution = execution
        self._threads = threads
        self._pumping: asyncio.Future[None] | None = None
        self._is_left = False
        """Whether the reader of its events has gone."""

    @property
    def decision(self) -> Decision:
        """What was decided about it."""
        return self.execution.decision

    @property
    def refusal(self) -> str:
        """Why it is not run, in one line; empty if it is."""
        return self.execution.refusal

    async def wait(self) -> Result:
        """As `Execution.wait`."""
        await self._leave()
        waiting = asyncio.wrap_future(given(self._threads.following, self.execution.wait))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await self.cancel()
            raise

    async def _leave(self) -> None:
        """Where its events were left early, the command ends first. A loop finds that out a few turns after
        the `break`, when it closes the iterator that no task refers to any more."""
        for _ in range(TURNS):
            if self._pumping is None or self._pumping.done() or self._is_left:
                break
            await asyncio.sleep(0)
        if self._pumping and self._is_left:
            await asyncio.wait((self._pumping,))

    async def events(self) -> AsyncIterator[Event]:
        """Output as it comes, the end last. Leaving the loop early cancels the command."""
        loop = asyncio.get_running_loop()
        taken: queue.Queue[object] = queue.Queue(HELD)
        more = asyncio.Event()
        gone = False

        def pump() -> None:
            try:
                for event in self.execution.events():
                    if not _handed(taken, event, lambda: gone):
                        return
                    loop.call_soon_threadsafe(more.set)
            except BaseException as error:  # noqa: BLE001  (raised again where the events are taken)
                _handed(taken, error, lambda: gone)
            finally:
                _handed(taken, None, lambda: gone)
                with suppress(RuntimeError):  # the loop is closed: no task waits
                    loop.call_soon_threadsafe(more.set)

        pumping = self._pumping = asyncio.wrap_future(given(self._threads.following, pump))
        try:
            while True:
                try:
                    event: Any = taken.get_nowait()
                except queue.Empty:
                    more.clear()
                    if taken.empty():
                        await more.wait()
                    continue
                if event is None:
                    return
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            gone = self._is_left = True
            if not pumping.done():
                await self.cancel()

    async def cancel(self) -> None:
        """Ends the command and everything it started, daemons included."""
        await self._threads.endings.do(self.execution.cancel)

    def write(self, data: bytes) -> int:
        """Types on its terminal; how many of the bytes it took for now."""
        return self.execution.write(data)

    def resize(self, rows: int, columns: int) -> None:
        """As `Execution.resize`."""
        self.execution.resize(rows, columns)
