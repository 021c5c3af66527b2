"""What a session writes into the journal: each run before it begins, and how it ended."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict, replace

from pinfold.audit.journal import Journal, JournalError
from pinfold.model.decision import Decision
from pinfold.model.errors import PinfoldError
from pinfold.model.permission import PermissionNeeded, Settlement
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.policy.level import level_of
from pinfold.session.execution import End
from pinfold.state.directory import journal_file
from pinfold.state.sessions import register, unregister

if TYPE_CHECKING:
    from queue import SimpleQueue

    from pinfold.sandbox.backend import StartRequest

MOST_TROUBLES = 10
CANCELLED = End(None, None, timed_out=False, cancelled=True, seconds=0.0)


class Ledger:
    """A policy is written once, and named by its row in each run that had it."""

    def __init__(
        self, session: str, roots: tuple[str, ...], environ: Mapping[str, str], size: int | None = None
    ) -> None:
        """The journal of all sessions may grow to `size` bytes."""
        self.session = session
        self._owner = os.getpid()
        self.journal = Journal(journal_file(environ), size)
        try:
            self._handle = register(session, roots, environ)
        except BaseException:
            self.journal.close()
            raise
        self.troubles: list[str] = []
        """What could not be written of things that had already happened."""
        self._policy: tuple[SandboxPolicy | None, int] = (None, 0)
        self._under_way: dict[int, Callable[[], object]] = {}
        """Runs whose end is not written, by their rows, with the function that reports it if the session ends
        first. The thread that takes a run out of it writes its end, so that each run has one end."""
        self._telling: dict[object, int] = {}
        """Threads that take a run out or write its end: the journal is not closed meanwhile. A lock would
        deadlock: its holder would wait for the journal's lock, whose holder may be writing an end itself."""
        self._told: SimpleQueue[None] | None = None
        """Wakes the thread that waits for them, if one does. Putting something there takes no lock."""

    def before(
        self,
        command: RunCommand,
        cwd: str,
        decision: Decision,
        settlement: Settlement | None,
        allowed: bool,
    ) -> int:
        """The row of a run that is about to begin, or was refused."""
        reason = decision.reasons[0]
        data: dict[str, object] = {
            "command": command.command,
            "cwd": cwd,
            "decision": decision.verdict,
            "step": reason.step,
            "sandboxed": decision.sandboxed,
            "policy": self._row_of(decision.policy),
            "level": level_of(decision).value,
        }
        if command.argv is not None:
            data["argv"] = command.argv
        if command.description:
            data["description"] = command.description
        if reason.rule:
            data["rule"] = reason.rule
            data["where"] = str(reason.origin)
        if settlement:
            data["answer"] = settlement.answer
            data["by"] = settlement.by
            data["outcome"] = settlement.outcome
        if decision.widening:
            data["widening"] = [[each.field, each.value] for each in decision.widening]
        row = self.journal.append(self.session, "run" if allowed else "refused", data)
        if allowed:
            self._under_way[row] = partial(self.after, row, CANCELLED)
        return row

    def began(self, entry: int, tell_end: Callable[[], object]) -> None:
        """The command runs. `tell_end` reports its end, by the thread that followed it."""
        if entry in self._under_way:
            self._under_way[entry] = tell_end

    def is_under_way(self, entry: int) -> bool:
        """Whether the end of a run is not told yet."""
        return entry in self._under_way

    def file(
        self, tool: str, path: str, decision: Decision, settlement: Settlement | None, allowed: bool
    ) -> int:
        """The row of a file tool's use that is about to be made, or was refused."""
        reason = decision.reasons[0]
        data: dict[str, object] = {
            "tool": tool,
            "path": path,
            "decision": decision.verdict,
            "step": reason.step,
        }
        if reason.rule:
            data["rule"] = reason.rule
        if settlement:
            data["answer"] = settlement.answer
            data["by"] = settlement.by
            data["outcome"] = settlement.outcome
        return self.journal.append(self.session, "file" if allowed else "refused", data)

    def after(self, entry: int, end: End) -> bool:
        """Writes how a run ended. Returns whether this call wrote it, and no call before."""
        told = asdict(end)
        if end.violations:
            told["violations"] = [replace(each, command="") for each in end.violations]
        else:
            del told["violations"]
        if not end.error:
            del told["error"]
        return self._end(entry, told)

    def failed(self, entry: int, error: BaseException) -> None:
        """The run did not begin, or an interrupt of its caller ended it."""
        if isinstance(error, Exception):
            self._end(entry, {"error": str(error)})
        else:
            self.after(entry, CANCELLED)

    def _end(self, entry: int, told: Mapping[str, object]) -> bool:
        if os.getpid() != self._owner:
            return False  # a fork's copy: the parent process writes its end
        this = object()
        self._telling[this] = threading.get_ident()
        try:
            is_first = self._under_way.pop(entry, None) is not None
            if is_first:
                self._try("end", told, entry)
        finally:
            del self._telling[this]
            if self._told is not None:
                self._told.put(None)
        return is_first

    def connected(self, outcome: Mapping[str, object], entry: int) -> None:
        """A connection that came to its end, or to none. Its run is named by its row: a command makes as many
        connections as it likes, and its line may be long."""
        self._try("connect", outcome, entry or None)

    def elevated(
        self,
        question: PermissionNeeded,
        settlement: Settlement,
        paths: tuple[str, ...],
        entry: int,
        times: int = 1,
    ) -> bool:
        """A call that waited for a person, and what they said; False if it could not be written."""
        told = {
            "program": question.program,
            "operation": question.operation,
            "paths": paths,
            "answer": settlement.answer,
            "by": settlement.by,
            "outcome": settlement.outcome,
            "times": times,
        }
        return self._try("elevation", told, entry or None)

    def trouble(self, text: str) -> None:
        self._note(text)
        self._try("trouble", {"error": text}, None)

    def _try(self, kind: str, data: Mapping[str, object], about: int | None) -> bool:
        if os.getpid() != self._owner:
            return False  # a fork's copy: the parent process writes what happens
        try:
            self.journal.append(self.session, kind, data, about)
        except JournalError as error:
            # It has happened: its result must not be lost with it.
            self._note(f"something that happened (`{kind}`) was not written down: {error.why}")
            return False
        return True

    def _note(self, trouble: str) -> None:
        self.troubles = [*self.troubles[1 - MOST_TROUBLES :], trouble]

    def _row_of(self, policy: SandboxPolicy) -> int:
        known, row = self._policy
        if known is not policy and known != policy:
            from pinfold.policy.json_format import to_json

            row = self.journal.append_policy(self.session, {"policy": to_json(policy)})
            self._policy = policy, row
        return row

    def close(self) -> None:
        """Preconditions: every command has ended."""
        for tell_end in list(self._under_way.values()):
            tell_end()
        unregister(self._handle)
        if self._are_others_telling():
            from queue import SimpleQueue

            self._told = SimpleQueue()
            while self._are_others_telling():
                self._told.get()
        self.journal.close()

    def _are_others_telling(self) -> bool:
        own = threading.get_ident()
        return any(thread != own for thread in list(self._telling.values()))


After = Callable[[int, End], bool]


class DebugRecord:
    """The debug output of one run, for a person who debugs a policy: see `audit.debug_output`."""

    def __init__(self, policy: SandboxPolicy, request: "StartRequest") -> None:
        from pinfold.audit.debug_output import DebugOutput

        self.output = DebugOutput(policy.debug_output_dir or "")
        self.policy = policy
        self.request = request

    def after(self, after: After, plan: str) -> After:
        """Returns a function that calls `after`, and writes the debug output too."""

        def both(entry: int, end: End) -> bool:
            is_first = after(entry, end)
            if is_first:
                with suppress(PinfoldError):  # the command has run: its result must not be lost with this
                    self._write(entry, end, plan)
            return is_first

        return both

    def _write(self, entry: int, end: End, plan: str) -> None:
        from pinfold.audit.tail_file import storable
        from pinfold.policy.json_format import to_executor, to_json

        told = {
            "id": entry,
            "command": storable(self.request.line),
            "cwd": storable(self.request.cwd),
            "enforced": bool(plan),
        }
        self.output.log({**told, **asdict(end)})
        self.output.run(
            entry,
            {
                **told,
                "policy": msgspec.Raw(to_json(self.policy).encode()),
                "converted": to_executor(self.policy),
                "plan": storable(plan).splitlines(),
                "end": asdict(end),
            },
        )
