"""Questions about calls that wait in a sandbox: judged by the rules, put to a person, journaled.

INVARIANT: any failure is a no.
"""

import os
from _thread import allocate_lock
from collections.abc import Callable, Hashable, Iterator, Sequence
from stat import S_IMODE
from typing import TYPE_CHECKING, Protocol

from pinfold.approval.wording import DONE
from pinfold.audit.journal import Repeats
from pinfold.model.codes import ViolationCode
from pinfold.model.context import Context
from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.env_files import FileIdentity
from pinfold.model.permission import (
    LASTING,
    Answer,
    Capability,
    PermissionNeeded,
    Reach,
    Settlement,
    SettlementOutcome,
)
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.protected_names import GIT
from pinfold.model.violation import READ
from pinfold.policy.grants import (
    TREE,
    GrantContext,
    Grants,
    change_of_mode,
    covers,
    directory_to_offer,
    granted,
    is_too_much,
    key_of,
    objection,
    source_of,
    ungranted,
    widened,
)
from pinfold.policy.reasons import remedy_for
from pinfold.policy.shipped_protected import GIT_BLOCKED, protected_by, why_protected
from pinfold.policy.widen import narrowed
from pinfold.sandbox.backend import Ruling, Wanted
from pinfold.workspace.rm_targets import Removals

if TYPE_CHECKING:
    from pinfold.approval.broker import Desk
    from pinfold.model.settings import Settings
    from pinfold.model.violation import Violation
    from pinfold.workspace.made_inside import MadeInside

UNWRITTEN = "the journal could not record the answer, so the write was denied"


class Book(Protocol):
    """Where answers are journaled."""

    def elevated(
        self,
        question: PermissionNeeded,
        settlement: Settlement,
        paths: tuple[str, ...],
        entry: int,
        times: int,
    ) -> bool:
        """Whether it could be written."""


class WritingSession(Protocol):
    """The session whose commands ask."""

    id: str
    notes_reads: bool
    made: "MadeInside"

    def now(self) -> Context:
        """What is in force."""

    @property
    def settings(self) -> "Settings": ...

    @property
    def desk(self) -> "Desk": ...

    @property
    def ledger(self) -> Book: ...

    def has_anybody(self) -> bool:
        """Whether there is an approver."""

    def recalls_writes(self) -> bool:
        """Whether answers are remembered that hold without one."""


class Elevations:
    """May be used from any thread."""

    def __init__(self, session: WritingSession) -> None:
        self._session = session
        self._anybody = session.has_anybody()
        self.notes_reads = session.notes_reads
        self.made: Callable[[FileIdentity], None] = session.made.add
        self._lock = allocate_lock()
        self._grants = Grants()
        self._granted_on = ""
        """What the broker's answers depended on then."""
        self._removals = Removals()
        self._repeats = Repeats()

    def asks(self, policy: SandboxPolicy) -> bool:
        may = policy.type is not PolicyType.INSECURE_NONE and self._session.settings.filesystem.ask
        return may and (self._anybody or self._session.recalls_writes())

    def key(self, wanted: Wanted) -> tuple[str, ...]:
        mode = f"{wanted.modes[1]:o}" if wanted.modes else ""
        with self._lock:
            tree = self._removals.around(wanted, self._grant_context(wanted.policy))
        return key_of(wanted.operation, wanted.paths, wanted.is_git_writes, wanted.text or mode, tree)

    def known(self, wanted: Wanted) -> Ruling | None:
        key, context = self.key(wanted), self._grant_context(wanted.policy)
        if not context.settings.filesystem.ask:
            return Ruling(False, "`filesystem.ask` is false by now")
        if found := objection(key, wanted.operation, wanted.paths, context):
            return Ruling(False, found.message, code=None if found.by_administrator else ViolationCode.NEVER)
        return Ruling(True) if covers(self._standing(), key, context, wanted.rule) else None

    def put(
        self,
        command: Hashable,
        wanted: Wanted,
        obstacle: Callable[[], Ruling | None],
        answered: Callable[[Ruling], None],
    ) -> Callable[[], None]:
        desk = self._session.desk
        question = _WriteQuestion(self, desk, wanted, obstacle)
        return desk.calls.put(("write", command), self.key(wanted), question, answered)

    def ask(self, wanted: Wanted, is_withdrawn: Callable[[], bool]) -> Ruling | None:
        """The answer, after as long as a person takes; None if the question was withdrawn."""
        key, context = self.key(wanted), self._grant_context(wanted.policy)
        directory = directory_to_offer(key, context)
        request = wanted.request
        question = PermissionNeeded(
            request_id=os.urandom(8).hex(),
            session=self._session.id,
            capability=Capability.WRITE,
            command=request.line if request else "",
            cwd=request.cwd if request else "",
            decision=_decision(wanted, key, context),
            choices=(Answer.NO, Answer.ONCE, *LASTING),
            operation=TREE if key[0] == TREE else wanted.operation,
            path=key[1],
            source=source_of(key, context),
            directory=directory,
            program=wanted.program,
            run=str(request.entry) if request else "",
        )
        if not self._anybody and self._session.desk.known(question) is None:
            return Ruling(False)  # as where nothing waits
        stands_on = self._session.desk.stands_on()
        settlement = self._session.desk.ask(question, is_withdrawn)
        written = self._write_down(question, settlement, wanted)
        # A person takes time to answer: what must not be granted by now is not granted.
        late = self.known(wanted) if written else Ruling(False, UNWRITTEN)
        allowed = settlement.answer is not Answer.NO and (late is None or late.allowed)
        if allowed and settlement.answer in LASTING and settlement.reach is not Reach.COMMAND:
            scope = directory if settlement.reach is Reach.DIRECTORY else ""
            with self._lock:
                standing = self._grants if self._granted_on == stands_on else Grants()
                self._grants, self._granted_on = granted(standing, key, context, scope), stands_on
        if settlement.outcome is SettlementOutcome.WITHDRAWN:
            return None
        if allowed:
            return Ruling(True, ends_with_run=settlement.answer not in LASTING)
        if settlement.answer is Answer.NO:
            return Ruling(False, settlement.by, settlement.asked_at)
        return late or Ruling(False)

    def may_follow(
        self, refused: "Sequence[Violation]", needed: SandboxPolicy, policy: SandboxPolicy
    ) -> bool:
        """Whether a person may grant what a command of this policy was refused, once it has ended."""
        context = self._grant_context(policy)
        paths = {each.path for each in refused}
        if policy.type is not PolicyType.WORKSPACE_READWRITE:
            return False
        for each in refused:
            key = key_of(each.operation, (each.path,), each.is_git_writes)
            if each.operation not in ("connect", READ) and objection(
                key, each.operation, (each.path,), context
            ):
                return False
        directories = [path for path in needed.additional_readwrite_paths if path not in paths]
        return not any(is_too_much(directory, context) for directory in directories)

    def widened(self, policy: SandboxPolicy, context: Context) -> SandboxPolicy:
        """The policy of a command's pen, with what was granted for the session."""
        grants = self._standing()
        return (
            policy
            if grants == Grants()
            else widened(policy, grants, context.policy, self._grant_context(policy, context))
        )

    def ungranted(self, policy: SandboxPolicy) -> SandboxPolicy:
        """A pen's policy without what was granted for the session: no answer depends on earlier ones."""
        with self._lock:
            grants = self._grants
        return ungranted(policy, grants, self._session.now().policy)

    def _write_down(self, question: PermissionNeeded, settlement: Settlement, wanted: Wanted) -> bool:
        """Whether the journal has it. An answer like an earlier one is written when their number doubles: a
        command may ask again without end, even if it withdraws each time."""
        entry = wanted.request.entry if wanted.request else 0
        what = (wanted.operation, wanted.paths, settlement.answer, settlement.by)
        with self._lock:
            times = self._repeats.count(str(entry), what, is_grant=settlement.answer is not Answer.NO)
        return not times or self._session.ledger.elevated(question, settlement, wanted.paths, entry, times)

    def _standing(self) -> Grants:
        """What was granted for the session, under the settings that are in force."""
        with self._lock:
            grants, granted_on = self._grants, self._granted_on
        is_standing = grants == Grants() or granted_on == self._session.desk.stands_on()
        return grants if is_standing else Grants()

    def _grant_context(self, policy: SandboxPolicy, context: Context | None = None) -> GrantContext:
        """A command goes on in its pen when settings change: what they hide and protect by now counts too."""
        context = context or self._session.now()
        now = context.policy
        since = SandboxPolicy(hidden=now.hidden, protected=now.protected, ignore_mapping=now.ignore_mapping)
        is_known = {*now.hidden} <= {*policy.hidden} and {*now.protected} <= {*policy.protected}
        if not is_known or now.ignore_mapping != policy.ignore_mapping:
            policy, _ = narrowed(policy, since, context.settings.cap)
        return GrantContext.of(context, policy)


class _WriteQuestion:
    """A call that waits, as the broker asks about it."""

    def __init__(
        self,
        elevations: Elevations,
        desk: "Desk",
        wanted: Wanted,
        obstacle: Callable[[], Ruling | None],
    ) -> None:
        self._elevations, self._desk, self._wanted, self._obstacle = elevations, desk, wanted, obstacle

    def known(self) -> Ruling | None:
        return None

    def ask(self, is_withdrawn: Callable[[], bool]) -> tuple[Ruling | None, bool]:
        return self._obstacle() or self._elevations.ask(self._wanted, is_withdrawn), True

    def denied(self, settlement: Settlement) -> Ruling:
        return Ruling(False, settlement.by)

    def failed(self, error: Exception) -> Ruling:
        return Ruling(False, f"the question failed: {error}")

    def holds(self, answer: Ruling) -> bool:
        """A yes for this run ends with it: what calls later is what the run left behind."""
        request = self._wanted.request
        is_over = request is None or self._desk.is_over(str(request.entry))
        return not (answer.ends_with_run and is_over)


def _decision(wanted: Wanted, key: tuple[str, ...], context: GrantContext) -> Decision:
    """What is asked, as any decision tells it."""
    settings = context.settings
    is_tree = key[0] == TREE
    path, rule = key[1] if is_tree else wanted.paths[0], wanted.rule
    what = f"`{wanted.program}` wants to {DONE[TREE if is_tree else wanted.operation]} {path}"
    if len(wanted.paths) > 1:
        what += f", from {wanted.paths[1]}"
    if wanted.text:
        what += f", leading to `{wanted.text}`"
    if wanted.modes:
        what += f" ({change_of_mode(*wanted.modes)})"
    if key[0] == "git":
        setting, step = "filesystem.git_writes", StepCode.GIT_WRITES
        said, remedy = f"{what}; {GIT_BLOCKED}", "set `filesystem.git_writes`"
    elif wanted.rule:
        setting, step, remedy = "filesystem.protect", StepCode.PROTECTED, ""
        why = why_protected(wanted.rule, wanted.why, wanted.code, lambda: context.own)
        said = f"{what}, which is protected: {why}"
    else:
        setting, step = "filesystem.write", StepCode.OUTSIDE
        named = protected_by(path, ("/",), context.policy.protected)
        said = f"{what}, which is outside the writable directories" + (f"; {named.why}" if named else "")
        rule = named.name if named else ""
        remedy = f"add it to `{setting}`"
        repository, git, _ = path.partition(f"/{GIT}/")
        if git:
            said += f"; with {repository} in `{setting}`, all that git writes there is one question"
            remedy = f"add {repository} to `{setting}`"
    origin = settings.origin(setting)
    found = () if is_tree or key[0] == "git" else (*wanted.paths[1:], *_how(wanted))
    remedy = remedy_for(origin, remedy)
    reason = Reason(step, said, Verdict.ASK, rule=rule, origin=origin, remedy=remedy, arguments=found)
    return Decision(Verdict.ASK, (reason,), sandboxed=True, policy=context.policy)


def _how(wanted: Wanted) -> Iterator[str]:
    """What a yes depends on besides the paths: where a link leads, which mode becomes which."""
    if wanted.text:
        yield wanted.text
    if wanted.modes:
        before, after = wanted.modes
        yield from (f"{S_IMODE(before):03o}", f"{after:03o}")
