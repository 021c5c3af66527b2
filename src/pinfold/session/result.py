"""What comes of a request to run something: the decision with its answer, and how the command ended."""

from typing import Self

from msgspec import Struct

from pinfold.model.context import Context
from pinfold.model.decision import Decision, StepCode, Verdict
from pinfold.model.errors import SandboxUnavailable, SandboxViolation
from pinfold.model.permission import Answer, PermissionNeeded, Settlement
from pinfold.model.request import RunCommand
from pinfold.model.violation import Violation, violations_text
from pinfold.sandbox.backend import Enforcement


class Judged(Struct, frozen=True):
    """A command, what was decided about it, and the context in which it goes on."""

    command: RunCommand
    cwd: str
    """The directory that it starts in."""
    context: Context
    decision: Decision
    settlement: Settlement | None = None
    """The answer, if a person was asked."""

    @property
    def is_allowed(self) -> bool:
        return is_allowed(self.decision, self.settlement)


class Result(Struct, frozen=True):
    """`exit_code` is None where a signal ended the command, where it was not run, or where it never ended."""

    decision: Decision
    settlement: Settlement | None = None
    """How the question was answered, if there was one."""
    enforcement: Enforcement | None = None
    """What held it; None if it was not run."""
    exit_code: int | None = None
    signal: int | None = None
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    timed_out: bool = False
    cancelled: bool = False
    truncated: bool = False
    """Whether output beyond the cap was thrown away."""
    violations: tuple[Violation, ...] = ()
    """What it tried and was denied, as far as the sandbox saw it and the settings want it reported."""
    needed: PermissionNeeded | None = None
    """What it would have needed not to fail, if there was no approver to ask: see `Session.retry`."""
    left_running: tuple[str, ...] = ()
    """What earlier commands have left running in the session under other rules, a line each: reported once,
    with the first command under these."""

    def __repr__(self) -> str:
        """Short: a decision has its whole policy in it."""
        if not self.ran:
            return f"<Result: {self.refusal}>"
        end = f"signal={self.signal}" if self.exit_code is None else f"exit_code={self.exit_code}"
        why = ", timed_out=True" * self.timed_out + ", cancelled=True" * self.cancelled
        return f"<Result: {end}{why}, stdout={self.stdout[:2000]!r}, stderr={self.stderr[:2000]!r}>"

    @property
    def stdout(self) -> str:
        """As text; what is no UTF-8 is replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """As text; what is no UTF-8 is replaced. On a terminal it is in `stdout`."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ran(self) -> bool:
        """Whether it was run at all."""
        return self.enforcement is not None

    @property
    def refusal(self) -> str:
        """Why it was not run, in one line; empty if it was."""
        return "" if self.ran else refusal_of(self.decision, self.settlement)

    @property
    def violations_text(self) -> str:
        """The refusals as an agent can be shown them, in `<sandbox_violations>`; empty if there are none."""
        return violations_text(self.violations)

    def check(self) -> Self:
        """This result, if the command was run; else raises what stopped it."""
        if self.ran:
            return self
        if self.decision.reasons[0].step is StepCode.NO_FENCE:
            raise SandboxUnavailable(self.refusal)
        raise SandboxViolation(self.refusal)


def is_allowed(decision: Decision, settlement: Settlement | None) -> bool:
    """Whether it may be run. Any doubt falls to no."""
    if decision.verdict is Verdict.ALLOW:
        return True
    return decision.verdict is Verdict.ASK and settlement is not None and settlement.answer is not Answer.NO


def refusal_of(decision: Decision, settlement: Settlement | None) -> str:
    reason = decision.reasons[0]
    said = [f"{'denied' if decision.verdict is Verdict.DENY else 'not approved'}: {reason.message}"]
    if settlement and decision.verdict is Verdict.ASK:
        said.append(settlement.by if settlement.answer is Answer.NO else "")
    if reason.origin and reason.origin.file:
        said.append(f"written in {reason.origin}")
    if reason.remedy:
        said.append(reason.remedy)
    return "; ".join(part for part in said if part)
