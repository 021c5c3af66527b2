"""A session: the one place that knows the order of the stages.

A request is judged, asked about where the answer is "ask", journaled, and then run: inside the fence, or
outside where settings or a person said so. Whatever goes wrong on this way ends it before anything runs.
"""

import os
from _thread import allocate_lock
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import ConfinementError, SandboxUnavailable
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Settlement
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import ReadFile, Request, RunCommand, WriteFile
from pinfold.model.settings import Settings
from pinfold.session.judge import Judge, Talk, directory
from pinfold.session.probe import fence_trouble
from pinfold.session.requests import CHANGED, Given, as_command, line_of, require_texts
from pinfold.session.state import approvals_file
from pinfold.settings.sources import find_project

if TYPE_CHECKING:
    from pinfold.approval import Approver, Desk
    from pinfold.files import FileTools
    from pinfold.model.violation import Violation
    from pinfold.policy.elevation import Ground
    from pinfold.sandbox.backend import Request as Start
    from pinfold.session.debugging import Debugging
    from pinfold.session.elevation import Elevations
    from pinfold.session.execution import End, Execution, Need
    from pinfold.session.fences import Fences
    from pinfold.session.files import SessionFiles
    from pinfold.session.ledger import Ledger
    from pinfold.session.result import Result
    from pinfold.session.retrying import Retries

MOST_REFUSED = 64
"""Of how many lines it is remembered what they were refused."""


class Session:
    """One agent's work: its projects, the settings in force, its pens and its journal.

    `settings` is a file that stands for the user's own, a dictionary of the same shape, or None for
    the usual layers. `overrides` is the command line's layer. `approvers` are asked in turn where a person
    is needed, about several things at a time if several wait; without any, the answer is no. `resume` is the
    id of a session that has ended: what it was granted for its time holds again, in the same projects. With
    `notes_reads` a command's violations tell of hidden things that it opened too, and every open takes a turn
    of the warden's. May be used from any thread.
    """

    def __init__(
        self,
        projects: Sequence[str] = (),
        *,
        settings: str | os.PathLike[str] | Mapping[str, object] | None = None,
        cwd: str | None = None,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        approvers: "Sequence[Approver]" = (),
        conversation: str = "",
        generation: str = "",
        model: str = "",
        resume: str = "",
        notes_reads: bool = False,
    ) -> None:
        if isinstance(projects, str):
            raise TypeError("projects is a list of directories, not one string")
        self.environ = os.environ if environ is None else environ
        self.id = resume or os.urandom(8).hex()
        if resume:
            from pinfold.session.resuming import projects_of

            before = projects_of(resume, self.environ)
            projects = projects or before
        self._approvers = tuple(approvers)
        self._notes_reads = notes_reads
        self.counts: Counter[str] = Counter()
        """What was run, refused and asked, and what was done where there was no fence."""
        roots = tuple(directory(project) for project in projects)
        self.cwd = directory(cwd) if cwd else _start_of(roots)
        self._user = os.fspath(settings) if isinstance(settings, os.PathLike) else settings
        self._overrides: Mapping[str, object] = overrides or {}
        self._talk = Talk(conversation, generation, model)
        self._lock = allocate_lock()
        self._owner = os.getpid()
        self._is_closed = False
        self._fences: Fences | None = None
        self._ledger: Ledger | None = None
        self._desk: Desk | None = None
        self._files: SessionFiles | None = None
        self._elevation: Elevations | None = None
        self._refused: OrderedDict[str, tuple[Violation, ...]] = OrderedDict()
        """What each line was refused when it last ran in the fence, and was refused something."""
        self._retries: Retries | None = None
        self._judge = self._judge_of(roots or (find_project(self.cwd),), self._overrides)

    def _judge_of(self, roots: tuple[str, ...], overrides: Mapping[str, object]) -> Judge:
        return Judge(roots, self.cwd, self._user, overrides, self.environ, self._talk)

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories of the session's projects."""
        return self._judge.roots

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed: nobody waits for its questions then."""
        return self._is_closed

    @property
    def settings(self) -> Settings:
        """The settings in force now; a changed file counts from the next request on."""
        return self._judge.settings

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: what was not believed, not looked at, or not written down."""
        written = self._ledger.troubles if self._ledger else ()
        return (*self._judge.notices, *written, *(self._desk.notices if self._desk else ()))

    @property
    def policy(self) -> SandboxPolicy:
        """The user's own policy, with the workspace and its ignore files."""
        return self._judge.policy

    def ground(self) -> "Ground":
        """What may be granted in this session is judged by this."""
        return self._judge.ground()

    def supposing(self, settings: Mapping[str, object]) -> Judge:
        """The judge that this session would have, were these the user's settings."""
        return Judge(self.roots, self.cwd, settings, self._overrides, self.environ, self._talk)

    @property
    def settings_file(self) -> str:
        """Where the user's own settings are, or would be; empty where they are no file."""
        from pinfold.session.approvals import file_of

        return file_of(self._user, self.environ)

    @property
    def fingerprint(self) -> str:
        """What answers to its questions stand on now: one given under another holds no more."""
        from pinfold.session.approvals import Ground

        return Ground(lambda: self._judge, self._user, self.environ).fingerprint()

    def add_project(self, path: str) -> None:
        """One more directory to work in, from the next request on."""
        root = directory(path)
        if root in self.roots:
            return
        self._rejudge((*self.roots, root), self._overrides)

    def change(self, overrides: Mapping[str, object]) -> None:
        """Values of the command line's layer, changed by the person in front of it: `{"mode": ...}`."""
        self._rejudge(self.roots, merged(self._overrides, overrides))

    def override(self, section: str, key: str) -> list[object]:
        """The entries of a list in the command line's layer, to be added to."""
        values = self._overrides.get(section)
        found = values.get(key) if isinstance(values, Mapping) else None
        return list(found) if isinstance(found, list | tuple) else []

    def _rejudge(self, roots: tuple[str, ...], overrides: Mapping[str, object]) -> None:
        # What cannot be read is told by this, and the old ones stay.
        judge = self._judge_of(roots, overrides)
        self._overrides = overrides
        before, self._judge = self._judge, judge
        before.close()
        if self._fences is not None:
            self._fences.change_roots(roots)

    def check(self, request: Request | str | Sequence[str]) -> Decision:
        """What would be done about a request; a string is a shell line, a list is run without a shell."""
        return self._judge.check(request)

    def check_path(self, path: str, *, write: bool = False) -> Decision:
        """What would be done about reading a file, or writing it."""
        return self.check(WriteFile(path) if write else ReadFile(path))

    @property
    def files(self) -> "FileTools":
        """The file tools: read, write, replace and so on, over the session's projects."""
        self._require_open()
        with self._lock:
            if self._files is None:
                from pinfold.session.files import SessionFiles

                self._files = SessionFiles(
                    self.id,
                    lambda: self._judge,
                    lambda: self.desk,
                    lambda: self.ledger,
                    lambda: self.is_closed,
                )
        return self._files.tools()

    def run(
        self,
        request: RunCommand | str | Sequence[str],
        *,
        cwd: str | None = None,
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
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: bytes | int | None = None,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
        is_withdrawn: Callable[[], bool] = lambda: False,
    ) -> "Execution":
        """The same, under way: take its events as they come. `terminal` is rows and columns of one.
        `is_withdrawn` says, while somebody is asked about it, that it is not wanted any more."""
        self._require_open()
        require_texts(environment)
        command = as_command(request, cwd, timeout)
        _ = self.ledger  # opened while the fence still makes itself ready
        decision, settlement = self._settled(command, self._decided(command), is_withdrawn)
        given = Given(stdin, environment, terminal)
        return self._started(command, decision, settlement, given, is_first=True)

    def retry(self, needed: PermissionNeeded, answer: Answer = Answer.ONCE) -> "Execution":
        """Runs a command once more with what it needed (`result.needed`), which whoever calls this grants.

        It is the second run, and the last: raises where there was one already, or a no.
        """
        self._require_open()
        return self._retrying().run(needed, answer)

    def _started(
        self,
        command: RunCommand,
        decision: Decision,
        settlement: Settlement | None,
        given: Given,
        is_first: bool,
    ) -> "Execution":
        """Written down, and then under way if it may be."""
        from pinfold.session.execution import Execution
        from pinfold.session.result import is_allowed

        allowed = is_allowed(decision, settlement)
        entry = self.ledger.before(command, self._judge.start_of(command), decision, settlement, allowed)
        self._count(decision, allowed)
        if not allowed:
            return Execution(decision, settlement)
        try:
            return self._begun(entry, command, decision, settlement, given, is_first)
        except BaseException as error:
            self.ledger.failed(entry, error)
            raise

    def _begun(
        self,
        entry: int,
        command: RunCommand,
        decision: Decision,
        settlement: Settlement | None,
        given: Given,
        is_first: bool,
    ) -> "Execution":
        from pinfold.sandbox.backend import Request as Start
        from pinfold.session.execution import Execution

        policy = self._approved(decision)
        start = Start(
            command=command.argv if command.argv is not None else command.command,
            policy=self._of_the_pen(self._elevation.widened(policy) if self._elevation else policy),
            cwd=self._judge.start_of(command),
            environment=given.environment,
            variables=self._judge.last_settings.environment_set,
            stdin=given.stdin,
            timeout=policy.limits.timeout,
            output=policy.limits.output,
            terminal=given.terminal,
            entry=entry,
        )
        after: Callable[[int, End], None] = self.ledger.after
        debug = self._debugging(policy, start)
        pens = self.fences.fenced() if decision.sandboxed else self.fences.unfenced()
        began = monotonic()
        running = pens.start(start)
        if debug:
            after = debug.after(after, pens.plan(start.policy))
        settings = self._judge.last_settings
        line = line_of(command)
        return Execution(
            decision,
            settlement,
            running,
            lambda end: after(entry, end),
            began,
            lambda violations: self._explained(violations, settings, line, decision),
            (lambda violations: self._need(command, policy, violations, given))
            if is_first and decision.sandboxed
            else None,
        )

    def _retrying(self) -> "Retries":
        with self._lock:
            if self._retries is None:
                from pinfold.session.retrying import Retries

                self._retries = Retries(self._widened, self._question, self._put, self._started)
            return self._retries

    def _need(
        self, command: RunCommand, policy: SandboxPolicy, violations: "tuple[Violation, ...]", given: Given
    ) -> "Need | None":
        """What a run that failed would have needed, where that can be granted afterwards."""
        asks = self._has_anybody()
        is_closed = asks and not self._judge.last_settings.filesystem.ask
        if self._elevation is None or is_closed:
            return None
        may_follow = self._elevation.may_follow
        return self._retrying().need(
            command, violations, given, asks, lambda more: may_follow(violations, more, policy)
        )

    def close(self) -> None:
        """Ends everything that runs in it; nothing runs in it afterwards."""
        with self._lock:
            fences, self._fences = self._fences, None
            files, self._files = self._files, None
            self._is_closed = True
        self._judge.close()
        if files is not None:
            files.close()
        if fences is not None:
            fences.close()
        # Last: how the connections ended that were open is written down too.
        with self._lock:
            ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise ConfinementError("the session is closed; open another")
        if self.environ.get("PINFOLD_PEN") and self._judge.is_inside_fence:
            raise SandboxUnavailable("this is inside a pen already: run the command itself, without pinfold")
        if os.getpid() != self._owner:
            raise ConfinementError("this session belongs to the process that opened it; open another")

    def _decided(self, command: RunCommand) -> Decision:
        """The decision, with a fence that stands where it counts on one."""
        # What kept a fence from standing may be gone by now: too many processes, for instance.
        self._judge.fence_trouble = fence_trouble()
        decision = self._judge.check(command)
        if decision.sandboxed and decision.verdict is not Verdict.DENY:
            try:
                self.fences.fenced()
            except SandboxUnavailable as error:
                self._judge.fence_trouble = str(error)
                decision = self._judge.check(command)
        return decision

    def _settled(
        self, command: RunCommand, decision: Decision, is_withdrawn: Callable[[], bool]
    ) -> tuple[Decision, Settlement | None]:
        """The decision that counts once a person has answered, and the answer."""
        if decision.verdict is not Verdict.ASK:
            return decision, None
        if _capability(decision) is Capability.BYPASS and (narrower := self._narrower(command)):
            # What would have been enough is offered before no fence at all.
            settlement = self._asked(command, narrower, is_withdrawn)
            if settlement.answer is not Answer.NO:
                now = self._narrower(command)
                same = now is not None and now.widening == narrower.widening
                return narrower, settlement if same else CHANGED
        settlement = self._asked(command, decision, is_withdrawn)
        # A person takes their time: what was denied meanwhile is denied, and nothing else was approved.
        now = self._decided(command)
        if now.verdict is Verdict.DENY:
            return now, None
        if settlement.answer is Answer.NO:
            return decision, settlement
        if (now.widening, now.sandboxed) != (decision.widening, decision.sandboxed):
            return decision, CHANGED
        return now, settlement

    def _narrower(self, command: RunCommand) -> Decision | None:
        """The command inside the fence, with what it was refused when it last ran there, if that will do."""
        refused = self._refused.get(line_of(command), ())
        if not refused:
            return None
        from pinfold.policy.violations import sufficient

        policy = sufficient(refused, os.path.exists)
        if policy is None:
            return None
        return self._widened(replace(command, disable_sandbox=False, policy=policy))

    def _widened(self, command: RunCommand) -> Decision | None:
        """The decision about a command that asks for more, if it is to ask a person for that."""
        decision = self._decided(command)
        asks = decision.verdict is Verdict.ASK and decision.sandboxed and decision.widening
        return decision if asks and _capability(decision) is Capability.WIDEN else None

    def _asked(self, command: RunCommand, decision: Decision, is_withdrawn: Callable[[], bool]) -> Settlement:
        return self._put(self._question(command, decision), is_withdrawn)

    def _put(self, question: PermissionNeeded, is_withdrawn: Callable[[], bool]) -> Settlement:
        return self.desk.ask(question, lambda: self.is_closed or is_withdrawn())

    def _question(self, command: RunCommand, decision: Decision) -> PermissionNeeded:
        from pinfold.session.approvals import choices_of

        capability = _capability(decision)
        rules = decision.candidates if self.desk.writes_rules else ()
        if capability is not Capability.RUN or not (rules and self._judge.is_lifted_by(command, rules)):
            rules = ()
        choices = choices_of(decision, capability, self._judge.last_settings)
        return PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self.id,
            capability=capability,
            command=line_of(command),
            cwd=self._judge.start_of(command),
            decision=decision,
            description=command.description,
            choices=(*choices, Answer.RULE) if rules else choices,
            rules=rules,
        )

    @property
    def desk(self) -> "Desk":
        """Where the session's questions are put."""
        with self._lock:
            if self._desk is None:
                from pinfold.approval import Desk, Store
                from pinfold.session.approvals import Ground

                ground = Ground(lambda: self._judge, self._user, self.environ)
                self._desk = Desk(self._approvers, ground, Store(approvals_file(self.environ)))
            return self._desk

    def _approved(self, decision: Decision) -> SandboxPolicy:
        if not decision.widening:
            return decision.policy
        from pinfold.policy.widen import with_approved

        return with_approved(decision.policy, decision.widening, self._judge.last_settings.cap)

    def _of_the_pen(self, policy: SandboxPolicy) -> SandboxPolicy:
        """What a pen is built by: the time a command may take is not part of it."""
        usual = self._judge.last_policy.limits
        limits = replace(policy.limits, timeout=usual.timeout, output=usual.output)
        return policy if limits == policy.limits else replace(policy, limits=limits)

    def _explained(
        self, violations: "tuple[Violation, ...]", settings: Settings, line: str, decision: Decision
    ) -> "tuple[tuple[Violation, ...], tuple[Violation, ...]]":
        """All that was refused, and what of it is to be reported."""
        from pinfold.policy.violations import explained, heard, is_ignored
        from pinfold.session.loopback import is_heard

        roots, told = self.roots, heard(violations, is_heard)
        every = tuple(explained(each, settings, line, decision.policy, roots) for each in told)
        with self._lock:
            self._refused[line] = every
            if len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)
        commands = [command.text for command in decision.commands]
        return every, tuple(each for each in every if not is_ignored(each, settings, commands))

    def _debugging(self, policy: SandboxPolicy, start: "Start") -> "Debugging | None":
        """Its directory is made before the pen, which hides it, and while it can still stop the run."""
        if not policy.debug_output_dir:
            return None
        from pinfold.session.debugging import Debugging

        return Debugging(policy, start)

    def _count(self, decision: Decision, allowed: bool) -> None:
        if decision.verdict is Verdict.ASK:
            self.counts["asked"] += 1
        if self._judge.fence_trouble:
            self.counts[f"unavailable: {self._judge.last_settings.sandbox.if_unavailable}"] += 1
        self.counts["refused" if not allowed else "fenced" if decision.sandboxed else "unfenced"] += 1

    @property
    def fences(self) -> "Fences":
        self._require_open()
        with self._lock:
            if self._fences is None:
                from pinfold.session.fences import Fences
                from pinfold.session.gateway import Gateway

                self._fences = Fences(
                    self.roots,
                    self._judge.home,
                    lambda: Gateway(
                        self.id, lambda: self._judge, lambda: self.desk, self._books, self.environ
                    ),
                    self._elevations(),
                )
            return self._fences

    def _elevations(self) -> "Elevations":
        """Preconditions: the lock is held."""
        if self._elevation is None:
            from pinfold.session.elevation import Elevations

            self._elevation = Elevations(
                self.id, lambda: self._judge, lambda: self.desk, lambda: self.ledger, self._has_anybody()
            )
            self._elevation.notes_reads = self._notes_reads
        return self._elevation

    def _has_anybody(self) -> bool:
        """Whether there is an approver who could be asked."""
        from pinfold.approval import is_there

        return any(map(is_there, self._approvers))

    @property
    def ledger(self) -> "Ledger":
        self._require_open()
        return self._books()

    def _books(self) -> "Ledger":
        """The ledger, in a session that is being closed too."""
        with self._lock:
            if self._ledger is None:
                self._require_open()
                from pinfold.session.ledger import Ledger

                self._ledger = Ledger(self.id, self.roots, self.environ)
            return self._ledger


def _start_of(roots: tuple[str, ...]) -> str:
    """Where we are, if that is in one of the projects; else the first of them."""
    here = directory(os.getcwd())
    inside = not roots or any(f"{here}/".startswith(f"{root}/") for root in roots)
    return here if inside else roots[0]


def merged(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Values of one layer with others over them, key by key within a section."""
    both = dict(old)
    for name, value in new.items():
        before = both.get(name)
        is_section = isinstance(before, Mapping) and isinstance(value, Mapping)
        both[name] = {**before, **value} if is_section else value  # type: ignore[dict-item]
    return both


def _capability(decision: Decision) -> Capability:
    steps = {reason.step for reason in decision.reasons}
    if "bypass" in steps:
        return Capability.BYPASS
    return Capability.WIDEN if decision.widening else Capability.RUN
