"""A session: the one place that knows the order of the stages.

A request is judged, asked about if the decision is "ask", journaled, and then started: in the sandbox, or
outside if settings or a person say so. Any failure on this way ends the request before anything runs.
"""

import os
import sys
from _thread import allocate_lock
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import SandboxUnavailable
from pinfold.model.handed_streams import HandedStreams
from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import ReadFile, Request, RunCommand, WriteFile
from pinfold.model.settings import Settings
from pinfold.model.symlinks import project_directory
from pinfold.session.execution import Execution, Explanations
from pinfold.session.judge import AgentTurn, Judge, start_of
from pinfold.session.open_parts import Resources, fingerprint_of
from pinfold.session.request import (
    Given,
    as_command,
    as_request,
    require_approvers,
    require_given,
    start_in,
    with_variables,
)
from pinfold.session.result import Judged
from pinfold.settings.parse_layer import overlaid
from pinfold.settings.sources import file_of, find_project
from pinfold.workspace.made_inside import MadeInside

if TYPE_CHECKING:
    from pinfold.approval import Approver
    from pinfold.approval.broker import Desk
    from pinfold.files import FileTools
    from pinfold.model.violation import Violation
    from pinfold.policy.grants import GrantContext
    from pinfold.session.command_questions import CommandQuestions
    from pinfold.session.execution import Need
    from pinfold.session.journal import Ledger
    from pinfold.session.open_parts import Sandboxes
    from pinfold.session.result import Result
    from pinfold.session.retry import Retries


class Session:
    """One agent's work: its projects, the settings in force, its pens and its journal.

    `settings` is a file to use instead of the user's own, a dictionary of the same shape, or None for the
    usual layers. `overrides` is the command line's layer. `environ` replaces the variables of this process:
    it says where the home, the settings and the state are. `approvers` are asked in turn where a person is
    needed, about several things at a time if several wait; without any, the answer is no. `resume` is the id
    of a session that has ended: what it was granted for its time holds again, in the same projects and under
    settings that are no wider than it had, nor than today's. With `notes_reads` a command's violations tell
    of hidden things that it opened too, and every open takes a turn of the warden's. With `one_command`
    nothing else is run in it: an answer for the session ends with that command, and is not kept. `scratch` is
    a private directory below the machine's /tmp that commands have as theirs: the caller sees the same files
    there. Without it no process outside sees theirs. May be used from any thread.
    """

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
        if isinstance(projects, str | os.PathLike):
            raise TypeError("`projects` must be a list of directories, got a single one")
        require_approvers(approvers := tuple(approvers))
        self.environ = os.environ if environ is None else environ
        self.id = resume or os.urandom(8).hex()
        self._held: Mapping[str, Any] | None = None
        """What it had before it was resumed, and what the person in front of it has changed since."""
        if resume:
            from pinfold.state.resume import kept_of, require_same

            kept = kept_of(resume, self.environ)
            if projects:
                require_same(resume, tuple(map(project_directory, projects)), kept)
            projects, self._held = kept.roots, kept.held
            settings = kept.given if settings is None else settings
            overrides = overlaid(kept.overrides, overrides or {})
        self.counts: Counter[str] = Counter()
        """What was run, refused and asked, and what was done where there was no sandbox."""
        roots = tuple(project_directory(project) for project in projects)
        self.cwd = project_directory(cwd) if cwd else start_in(roots)
        self._user = os.fspath(settings) if isinstance(settings, os.PathLike) else settings
        self._overrides: Mapping[str, object] = overrides or {}
        self._opened_with = self._overrides
        made = MadeInside()
        self._lock, self._changing = allocate_lock(), allocate_lock()
        self._refusals = Explanations()
        self._questions: CommandQuestions | None = None
        self._retries: Retries | None = None
        roots = roots or (find_project(self.cwd, self.environ),)
        _guard_imports(roots)
        turn = AgentTurn(conversation, generation, model)
        self._judge = Judge(
            roots, self.cwd, self._user, self._overrides, self.environ, turn, self._held, made
        )
        self._resources = Resources(
            self.id,
            self._judge,
            self.settings_file,
            self.environ,
            approvers,
            notes_reads,
            one_command,
            self._keep,
            made,
            scratch,
        )

    def _keep(self) -> None:
        """Writes down what it has, for a later `resume`."""
        from pinfold.settings.cap_resumed import held_of
        from pinfold.state.resume import keep

        settings = self.settings
        held, lasts = held_of(settings), settings.approvals.keep
        keep(self.id, self.roots, self._user, self._opened_with, held, lasts, self.environ)

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories of the session's projects."""
        return self._judge.roots

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed: its questions are withdrawn then."""
        return self._resources.is_closed

    @property
    def has_processes(self) -> bool:
        """Whether a command runs in it, or has left a process running."""
        return self._resources.have_processes

    @property
    def settings(self) -> Settings:
        """The settings in force now; a changed file counts from the next request on."""
        return self._resources.settings

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: what was not believed, not looked at, or not written down."""
        return (*self._judge.source.notices, *self._resources.notices)

    @property
    def policy(self) -> SandboxPolicy:
        """The user's own policy, with the workspace and its ignore files."""
        return self._judge.source.policy

    def grant_context(self) -> "GrantContext":
        """What may be granted in this session is judged by this."""
        from pinfold.policy.grants import GrantContext

        return GrantContext.of(self._resources.now())

    def supposing(self, settings: Mapping[str, object]) -> Judge:
        """The judge that this session would have, were these the user's settings."""
        turn, held = self._judge.turn, self._held
        return Judge(self.roots, self.cwd, settings, self._overrides, self.environ, turn, held)

    @property
    def settings_file(self) -> str:
        """Where the user's own settings are, or would be; empty where they are no file."""
        return file_of(self._user, self.environ)

    @property
    def fingerprint(self) -> str:
        """What answers to its questions depend on now: an answer given under another holds no more."""
        return fingerprint_of(self._resources.now())

    def add_project(self, path: str | os.PathLike[str]) -> None:
        """One more directory to work in, from the next request on."""
        root = project_directory(path)
        with self._changing:
            if root not in self.roots:
                self._rejudge((*self.roots, root), self._overrides)

    def change(self, overrides: Mapping[str, object]) -> None:
        """Values of the command line's layer, changed by the person in front of it: `{"mode": ...}`."""
        with self._changing:
            if self._held is not None:
                from pinfold.settings.cap_resumed import with_change

                before, self._held = self._held, with_change(self._held, overrides)
                try:
                    self._rejudge(self.roots, overlaid(self._overrides, overrides))
                except BaseException:
                    self._held = before
                    raise
            else:
                self._rejudge(self.roots, overlaid(self._overrides, overrides))

    def adopt(self, environ: Mapping[str, str]) -> None:
        """Other variables for what comes next, in place of those that the session was opened with."""
        if environ == self.environ:
            return
        with self._changing:
            before, self.environ = self.environ, environ
            self._judge.adopt(environ)
            try:
                self._rejudge(self.roots, self._overrides)
            except BaseException:
                self.environ = before
                self._judge.adopt(before)
                raise

    def judge_at(self, cwd: str) -> Judge:
        """What judges requests that start in this directory."""
        return self._judge.at(cwd)

    def override(self, section: str, key: str) -> list[object]:
        """The entries of a list in the command line's layer, to be added to."""
        values = self._overrides.get(section)
        found = values.get(key) if isinstance(values, Mapping) else None
        return list(found) if isinstance(found, list | tuple) else []

    def _rejudge(self, roots: tuple[str, ...], overrides: Mapping[str, object]) -> None:
        """Preconditions: the lock for changes is held."""
        self._resources.require_free()
        _guard_imports(roots)
        self._judge.turn_to(roots, overrides, self._held)  # raises if they cannot be read; the old ones stay
        self._overrides = overrides
        self._resources.change_roots(roots)
        self._resources.keep(is_known=self._held is not None)

    def check(self, request: Request | str | Sequence[str]) -> Decision:
        """What would be done about a request; a string is a shell line, a list is run without a shell."""
        return self._judge.decided(as_request(request), self._resources.now())

    def check_path(self, path: str | os.PathLike[str], *, write: bool = False) -> Decision:
        """What would be done about reading a file, or writing it."""
        named = os.fspath(path)
        return self.check(WriteFile(named) if write else ReadFile(named))

    def permit_tool(
        self,
        tool: str,
        *,
        reads: Sequence[str | os.PathLike[str]] = (),
        writes: Sequence[str | os.PathLike[str]] = (),
        deletes: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        """For a tool of the caller's own: decides on the files that it will use, asks if need be, and writes
        each into the journal. Raises `FileRefused` for the first that it may not use."""
        self._resources.permit_tool(tool, reads, writes, deletes)

    @property
    def files(self) -> "FileTools":
        """The file tools: read, write, replace and so on, over the session's projects."""
        return self._resources.files

    @property
    def desk(self) -> "Desk":
        """Where the session's questions are put."""
        return self._resources.desk

    @property
    def sandboxes(self) -> "Sandboxes":
        """Where its commands run."""
        return self._resources.sandboxes

    @property
    def ledger(self) -> "Ledger":
        """Where it is written down what the session does."""
        return self._resources.ledger

    def run(
        self,
        request: RunCommand | str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "Result":
        """Decides, asks if need be, runs, and gathers what came of it. A refusal is a result too."""
        return self.start(request, cwd=cwd, timeout=timeout, stdin=stdin, environment=environment).wait()

    def start(
        self,
        request: RunCommand | str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        stdin: bytes | int | None = None,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
        is_withdrawn: Callable[[], bool] = lambda: False,
        streams: HandedStreams = HandedStreams(),  # noqa: B008  (it is frozen)
        umask: int | None = None,
        is_background: bool = False,
    ) -> Execution:
        """Starts a command, and returns while it runs: take its events as they come.

        `terminal` is rows and columns of one. `is_withdrawn` says, while a person is asked about the command,
        that it is not wanted any more. `streams` are descriptors of the caller that the command gets as its
        own; `umask` is its file mode creation mask. With `is_background`, it has no time limit but one that
        the call or the settings set.
        """
        self._resources.require_open()
        require_given(given := Given(stdin, environment, terminal, streams, umask, is_background))
        command = with_variables(as_command(request, cwd, timeout), environment, self.environ)
        _ = self.ledger  # opened while the sandbox still makes itself ready
        judged = self._judged(command)
        judged = self._asked(judged, is_withdrawn)
        entry = self._journaled(judged)
        return self._started(entry, judged, given)

    def retry(self, needed: PermissionNeeded, answer: Answer = Answer.ONCE) -> Execution:
        """Runs a command once more with what it needed (`result.needed`), which the caller grants.

        It is the second run, and the last: raises where there was one already, or a no.
        """
        self._resources.require_open()
        if not isinstance(needed, PermissionNeeded):
            raise TypeError(f"retry takes the `needed` of a result, got {needed!r}")
        return self._retrying().run(needed, answer)

    def prepare(self) -> None:
        """Builds the sandbox that an ordinary command will run in, so that the first one need not wait.
        Raises SandboxUnavailable where there can be none."""
        context = self._resources.now()
        decision = self._judge.decided(RunCommand("true"), context)
        if decision.sandboxed:
            self.sandboxes.sandboxed().plan(self._resources.widened(decision.policy, context))

    # The stages

    def _judged(self, command: RunCommand) -> Judged:
        """Decides by what is in force now, with an open sandbox if the decision counts on one."""
        context = self._resources.now()
        decision = self._judge.decided(command, context)
        if decision.sandboxed and decision.verdict is not Verdict.DENY:
            try:
                self.sandboxes.sandboxed()
            except SandboxUnavailable as error:
                context = replace(context, sandbox_trouble=str(error))
                decision = self._judge.decided(command, context)
        return Judged(command, start_of(command, context.cwd), context, decision)

    def _asked(self, judged: Judged, is_withdrawn: Callable[[], bool]) -> Judged:
        """With the answer, if a person has to be asked; then by what is in force after it."""
        if judged.decision.verdict is not Verdict.ASK:
            return judged
        return self._asking().settle(judged, is_withdrawn)

    def _journaled(self, judged: Judged) -> int:
        """The row of a command that is about to begin, or is refused. Raises if it cannot be written."""
        decision, settlement, is_allowed = judged.decision, judged.settlement, judged.is_allowed
        entry = self.ledger.before(judged.command, judged.cwd, decision, settlement, is_allowed)
        if decision.verdict is Verdict.ASK:
            self.counts["asked"] += 1
        if judged.context.sandbox_trouble:
            self.counts[f"unavailable: {judged.context.settings.sandbox.if_unavailable}"] += 1
        place = "sandboxed" if decision.sandboxed else "unsandboxed"
        self.counts[place if is_allowed else "refused"] += 1
        return entry

    def _started(self, entry: int, judged: Judged, given: Given, is_again: bool = False) -> Execution:
        """The command under way; if it may not run, why."""
        if not judged.is_allowed:
            return Execution(judged.decision, judged.settlement)
        from pinfold.session.start import start

        ledger = self._resources.last_ledger
        need = None if is_again else partial(self._needed, judged, given)
        try:
            return start(entry, judged, given, self._resources, self._refusals, need)
        except BaseException as error:
            ledger.failed(entry, error)
            raise

    def _needed(
        self, judged: Judged, given: Given, policy: SandboxPolicy, found: "tuple[Violation, ...]"
    ) -> "Need | None":
        return self._retrying().need(judged, policy, found, given)

    def _begun_again(self, judged: Judged, given: Given) -> Execution:
        return self._started(self._journaled(judged), judged, given, is_again=True)

    def _asking(self) -> "CommandQuestions":
        with self._lock:
            if self._questions is None:
                from pinfold.session.command_questions import CommandQuestions

                self._questions = CommandQuestions(self._resources, self._judged, self._refusals)
            return self._questions

    def _retrying(self) -> "Retries":
        questions = self._asking()
        with self._lock:
            if self._retries is None:
                from pinfold.session.retry import Retries

                self._retries = Retries(questions, self._resources, self._begun_again)
            return self._retries

    def close(self) -> None:
        """Ends everything that runs in it; nothing runs in it afterwards."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _guard_imports(roots: tuple[str, ...]) -> None:
    if not sys.flags.isolated:  # an isolated program has no directory of a project on its path
        from pinfold.workspace.import_guard import guard_imports

        guard_imports(roots)
