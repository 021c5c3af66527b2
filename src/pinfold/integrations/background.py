"""Background processes of a session: commands that an agent starts, reads, writes to and stops.

They are commands like any other: judged, recorded, and ended with their session. Bounded are the number that
runs, the number that is remembered, and the output that is kept of each.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from pinfold.model.errors import PinfoldError
from pinfold.model.escape_text import visible
from pinfold.model.events import Exited, Output
from pinfold.model.request import RunCommand
from pinfold.session import Session
from pinfold.session.execution import Execution

MOST_RUNNING = 8
MOST_REMEMBERED = 24
"""Processes, with those that have ended."""
KEPT = 1 << 20
"""Bytes of output that are kept of each: the last ones."""
MOST_READ = 60_000
"""Bytes of output that one reading gives."""
PIECE = 1000
"""Characters of at most 4 bytes: the kernel takes that many bytes of a pipe whole or not at all."""
PATIENCE = 5.0
"""Seconds in which a process may read what is written to it, or end once it is stopped."""
CONTINUED = bytes(range(0x80, 0xC0))
"""The bytes of a character in UTF-8, from the second on."""


class BackgroundError(PinfoldError):
    """A call that the agent has to mend."""


class Reading(NamedTuple):
    """A stretch of a process's output."""

    text: str
    cursor: int
    """Where the next reading goes on."""
    missed: int
    """Bytes before it that are not kept any more."""
    has_more: bool
    """Whether more output is there already."""


class BackgroundProcess:
    """One command, followed by a thread of its own. May be used from any thread."""

    def __init__(self, id: str, command: str) -> None:
        self.id, self.command = id, command
        self.end: Exited | None = None
        self.error = ""
        """Why its end is not known."""
        self.execution: Execution | None = None
        self._changed = threading.Condition()
        self._kept = bytearray()
        self._written = 0
        """Bytes that it wrote, kept or not."""
        self._is_over = False
        self._pipe: int | None = None
        """Where its standard input is written."""

    @property
    def is_running(self) -> bool:
        return not self._is_over

    def start(self, session: Session, request: RunCommand, started: Callable[[Execution], None]) -> Execution:
        """Starts it; a command that was denied has a `refusal`."""
        given, self._pipe = os.pipe()
        try:
            execution = session.start(request, stdin=given, is_background=True)
        except BaseException:
            os.close(given)
            self._close()
            raise
        self.execution = execution
        if execution.refusal:
            os.close(given)
            self._close()
            return execution
        os.set_blocking(self._pipe, False)
        started(execution)
        threading.Thread(target=self._follow, args=(given,), name="pinfold-background", daemon=True).start()
        return execution

    def _follow(self, given: int) -> None:
        assert self.execution is not None  # noqa: S101  (`start` has set it)
        try:
            for event in self.execution.events():
                if isinstance(event, Output):
                    self._keep(event.data)
                else:
                    self.end = event
        except PinfoldError as error:
            self.error = str(error)
        finally:
            os.close(given)
            self._close()
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _keep(self, data: bytes) -> None:
        with self._changed:
            self._kept += data
            self._written += len(data)
            if len(self._kept) > KEPT:
                del self._kept[: len(self._kept) - KEPT]
            self._changed.notify_all()

    def _close(self) -> None:
        with self._changed:
            pipe, self._pipe = self._pipe, None
        if pipe is not None:
            os.close(pipe)

    def wait(self, seconds: float, since: int | None = None) -> None:
        """Returns once it has ended, or has written something after `since`, or the time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or (since is not None and self._written > since), seconds
            )

    def read(self, since: int) -> Reading:
        """Its output from a cursor on. Leaves a character of which some bytes are still to come for later."""
        with self._changed:
            first = self._written - len(self._kept)
            start = min(max(since, first), self._written)
            data = bytes(self._kept[start - first : start - first + MOST_READ])
            is_last = start + len(data) == self._written
            if not (is_last and self._is_over):
                data = data[: len(data) - _unfinished(data)]
            is_cut = start > since
        missed = max(0, start - max(since, 0)) if is_cut else 0
        text = (data.lstrip(CONTINUED) if is_cut else data).decode("utf-8", "replace")
        return Reading(text, start + len(data), missed, not is_last)

    def write(self, text: str, *, is_last: bool) -> int:
        """Writes to its standard input; returns how many characters it took in `PATIENCE`."""
        taken, deadline = 0, time.monotonic() + PATIENCE
        while taken < len(text) and self._write(text[taken : taken + PIECE].encode(), deadline):
            taken += len(text[taken : taken + PIECE])
        if is_last and taken == len(text):
            self._close()
        return taken

    def _write(self, data: bytes, deadline: float) -> bool:
        while True:
            with self._changed:  # so that the descriptor stays ours
                if self._pipe is None:
                    return False
                try:
                    return os.write(self._pipe, data) == len(data)
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    return False
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)

    @property
    def takes_input(self) -> bool:
        return self._pipe is not None

    def stop(self) -> None:
        """Ends it and everything it started."""
        if self.execution is not None:
            self.execution.cancel()
        self.wait(PATIENCE)


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a character that does not end there."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte in CONTINUED:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if length > back else 0
    return 0


class BackgroundProcesses:
    """The background processes of one session. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, BackgroundProcess] = {}
        self._started = 0

    def start(
        self, session: Session, request: RunCommand, started: Callable[[Execution], None]
    ) -> BackgroundProcess:
        """Starts one. Its `execution` has a `refusal` if it was denied; then it is not remembered."""
        with self._lock:
            running = [each for each in self._known.values() if each.is_running]
            if len(running) >= MOST_RUNNING:
                raise BackgroundError(f"{MOST_RUNNING} background processes run already: {_listed(running)}")
            self._started += 1
            process = BackgroundProcess(f"p{self._started}", request.command)
            self._known[process.id] = process
        try:
            execution = process.start(session, request, started)
        except BaseException:
            self._forget(process)
            raise
        if execution.refusal:
            self._forget(process)
        self._forget_oldest()
        return process

    def _forget(self, process: BackgroundProcess) -> None:
        with self._lock:
            del self._known[process.id]

    def _forget_oldest(self) -> None:
        with self._lock:
            ended = [each for each in self._known.values() if not each.is_running]
            for each in ended[: max(0, len(self._known) - MOST_REMEMBERED)]:
                del self._known[each.id]

    def find(self, id: str) -> BackgroundProcess:
        with self._lock:
            found = self._known.get(id)
            known = [*self._known.values()]
        if found is None:
            there = f"there are: {_listed(known)}" if known else "none was started in this session"
            raise BackgroundError(f"there is no background process `{visible(id)}`; {there}")
        return found


def _listed(processes: list[BackgroundProcess]) -> str:
    return "; ".join(
        f"{each.id} ({'running' if each.is_running else 'ended'}: {visible(each.command[:80])})"
        for each in processes
    )


_of_sessions: "weakref.WeakKeyDictionary[Session, BackgroundProcesses]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def background_of(session: Session) -> BackgroundProcesses:
    with _lock:
        return _of_sessions.setdefault(session, BackgroundProcesses())
