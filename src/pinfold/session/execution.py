"""One request to run something, as its caller holds it: under way, or refused."""

import os
import sys
import time
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct

from pinfold.model.decision import Decision
from pinfold.model.errors import ConfinementError, PinfoldError
from pinfold.model.events import Event, Exited, Output
from pinfold.model.permission import PermissionNeeded, Settlement
from pinfold.model.violation import Violation
from pinfold.sandbox.backend import CommandResult, RunningCommand
from pinfold.session.result import Judged, Result, refusal_of

Ended = Callable[["End"], object]
"""Called each time that the end is noticed: a run has one end, however often it is told."""
Explain = Callable[[tuple[Violation, ...]], tuple[tuple[Violation, ...], tuple[Violation, ...]]]
"""Refusals in full: all of them, for the journal, and those that are to be reported."""


class End(Struct, frozen=True):
    """What is journaled of the end of a command."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    seconds: float
    violations: tuple[Violation, ...] = ()
    error: str = ""
    """Why it is not known."""


class Need(Struct, frozen=True):
    """What a run that failed would have needed, and how it is run again with that."""

    question: PermissionNeeded
    begin: Callable[[Callable[[], bool]], "Execution"] | None
    """Asks for it, while it is not withdrawn, and starts the command again. None: there is no approver."""


MOST_REFUSED = 64
"""Of how many lines it is remembered what they were refused."""
TAIL = 1 << 16
"""Bytes of output that are looked at: its end says why a command failed."""
Unseen = Callable[[bytes], tuple[Violation, ...]]
"""What a command that failed was refused without a record, by what it wrote."""
Needs = Callable[[tuple[Violation, ...]], Need | None]


class Execution:
    """Take its `events` as they come, once, or `wait` for all of it. Output that `events` gave is not kept:
    `wait` tells only how the command ended then.

    A command that failed since it was refused what could not wait for a person is run again, once, if they
    grant what it needed: what comes then is the second run's, and so is the end.
    """

    def __init__(
        self,
        decision: Decision,
        settlement: Settlement | None,
        running: RunningCommand | None = None,
        ended: Ended | None = None,
        began: float = 0.0,
        explain: Explain | None = None,
        needs: Needs | None = None,
        unseen: Unseen | None = None,
    ) -> None:
        self.decision = decision
        self.settlement = settlement
        self._running = running
        self._ended = ended
        self._began = began
        self._explain = explain
        self._needs = needs
        """None once it has been run again: once is enough."""
        self._unseen = unseen
        self._tail = b""
        """The end of the output that `events` gave, where that may tell something."""
        self._is_cancelled = False
        self.needed: PermissionNeeded | None = None
        """What it would have needed not to fail, once it has ended, if there was no approver to ask."""
        self.violations: tuple[Violation, ...] = ()
        """What it tried and was denied, once it has ended."""

    @property
    def refusal(self) -> str:
        """Why it is not run, in one line; empty if it is."""
        return "" if self._running else refusal_of(self.decision, self.settlement)

    @property
    def left_running(self) -> tuple[str, ...]:
        """What earlier commands have left running under other rules: see `Result`."""
        return self._running.left_running if self._running else ()

    def events(self) -> Iterator[Event]:
        """Output as it comes, the end last; to be taken once. A refused command has none."""
        if self._running is None:
            return
        while True:
            end: Exited | None = None
            is_left = False
            try:
                for event in self._running.events():
                    if isinstance(event, Exited):
                        end = event
                        self._tell(event, self._running.violations())
                    else:
                        if self._unseen and isinstance(event, Output):
                            self._tail = (self._tail + event.data)[-TAIL:]
                        yield event
            except GeneratorExit:
                is_left = not sys.is_finalizing()
                raise
            finally:
                if is_left:
                    from pinfold.sandbox.threads import done_elsewhere

                    done_elsewhere(self._tell_if_left)
                elif end is None:
                    self._tell_if_left()
            if end is None or not self._is_begun_again(end):
                break
        if end is not None:
            yield end

    def wait(self) -> Result:
        """How it ended, with everything it wrote that `events` did not give; the same each time."""
        if self._running is None:
            return Result(self.decision, self.settlement)
        while True:
            try:
                end = self._running.wait()
            except BaseException:
                self._tell_if_left()
                raise
            self._tell(end, end.violations)
            if not self._is_begun_again(end):
                break
        return Result(
            self.decision,
            self.settlement,
            end.enforcement,
            end.exit_code,
            end.signal,
            end.stdout,
            end.stderr,
            end.timed_out,
            end.cancelled,
            end.truncated,
            self.violations,
            self.needed,
            self.left_running,
        )

    def _is_begun_again(self, end: Exited | CommandResult) -> bool:
        """Whether it was refused what could not wait, that was granted, and it runs once more."""
        needs, self._needs = self._needs, None
        failed = end.exit_code != 0 and not (end.timed_out or end.cancelled or self._is_cancelled)
        again = None
        if needs and failed and self.violations:
            # The session may have been closed meanwhile; the result is reported all the same.
            with suppress(PinfoldError):
                need = needs(self.violations)
                self.needed = need.question if need and not need.begin else None
                again = need.begin(lambda: self._is_cancelled) if need and need.begin else None
        if again is None or again._running is None:
            return False
        self.decision, self.settlement = again.decision, again.settlement
        self._running, self._began = again._running, again._began
        self._ended, self._explain, self._unseen = again._ended, again._explain, again._unseen
        self._tail = b""
        if self._is_cancelled:
            self._running.cancel()
        return True

    def cancel(self) -> None:
        """Ends the command and everything it started, daemons included. From any thread."""
        self._is_cancelled = True
        if self._running is not None:
            self._running.cancel()

    def write(self, data: bytes) -> int:
        """Types on its terminal; how many of the bytes it took for now."""
        return self._on_terminal().write(data)

    def resize(self, rows: int, columns: int) -> None:
        """Tells its terminal, and the programs on it, another size."""
        self._on_terminal().resize(rows, columns)

    def _on_terminal(self) -> RunningCommand:
        if self._running is None:
            raise ConfinementError("the command was refused: it has no terminal")
        return self._running

    def _tell_if_left(self) -> None:
        """Tells the end if the command ended with the caller that left it. Another caller may still follow
        it, even in the process that this is a fork of. At Python's own end nothing is told."""
        if self._running and self._running.end and not sys.is_finalizing():
            self.tell_end()

    def tell_end(self) -> None:
        """Tells how it ended, and what it was refused until then. Preconditions: it has ended."""
        if self._running is not None:
            error = self._running.failure
            seen = None if error else self._running.end
            self._tell(seen or Exited(None, None, cancelled=not error), self._running.violations(), error)

    def _tell(self, end: Exited | CommandResult, violations: tuple[Violation, ...], error: str = "") -> None:
        if self._unseen and end.exit_code:
            written = (
                end.stdout[-TAIL:] + b"\n" + end.stderr[-TAIL:] if isinstance(end, CommandResult) else b""
            )
            violations += self._unseen(self._tail + written)
        self.violations = violations
        try:
            if self._explain and violations:
                violations, self.violations = self._explain(violations)
        finally:  # it has ended, even if its denials cannot be explained
            if self._ended:
                seconds = time.monotonic() - self._began
                self._ended(
                    End(end.exit_code, end.signal, end.timed_out, end.cancelled, seconds, violations, error)
                )


class Explanations:
    """What commands of a session were denied, in full: for the journal, reports and later questions.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._last: OrderedDict[str, tuple[Violation, ...]] = OrderedDict()
        """What each line was denied when it last ran in the sandbox, if it was denied anything."""

    def of(self, line: str) -> tuple[Violation, ...]:
        return self._last.get(line, ())

    def explained(
        self,
        violations: tuple[Violation, ...],
        judged: Judged,
    ) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """All that was denied, and what of it is to be reported."""
        from pinfold.network.listeners import has_listener
        from pinfold.policy.explain_violation import drop_closed_ports, explained, is_ignored
        from pinfold.workspace.git_dirs import is_open_to_git

        settings, roots, home = judged.context.settings, judged.context.roots, judged.context.home
        line, policy, own = judged.command.command, judged.decision.policy, judged.context.own
        told = drop_closed_ports(violations, has_listener)

        def is_git_file(path: str) -> bool:
            return is_open_to_git(path, roots, policy.protected)

        every = tuple(
            explained(each, settings, line, policy, roots, home, os.path.exists, _may_write, own, is_git_file)
            for each in told
        )
        with self._lock:
            self._last[line] = every
            if len(self._last) > MOST_REFUSED:
                self._last.popitem(last=False)
        commands = [command.text for command in judged.decision.commands]
        return every, tuple(each for each in every if not is_ignored(each, settings, commands))


def _may_write(path: str) -> bool:
    """Whether it, or the nearest directory that is there, is the user's to change: if not, no grant helps."""
    while path.strip("/") and not os.path.lexists(path):
        path = os.path.dirname(path)
    try:
        return bool(path) and (os.access(path, os.W_OK) or os.lstat(path).st_uid == os.geteuid())
    except OSError:  # what the command left running has taken it away
        return False
