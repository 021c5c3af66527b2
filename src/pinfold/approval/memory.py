"""What is remembered of an answer, and which later questions it answers too. Pure.

INVARIANT: an answer speaks for a question only if everything it depended on is the same: what is wanted,
where, by which command and program, with which reasons, inside or outside of which sandbox, in which
projects, under which settings. A wider reach is something a person chose, and names what it leaves out.
"""

from msgspec import Struct

from pinfold.model.decision import StepCode
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reach


class Subject(Struct, frozen=True):
    """Everything that an answer depends on."""

    capability: Capability
    operation: str
    host: str
    port: int
    path: str
    command: str
    cwd: str
    program: str
    sandboxed: bool
    widening: tuple[tuple[str, str], ...]
    reasons: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Step, rule and arguments of each. How it was put into words is no part of it."""
    policy: str
    """The effective policy's fingerprint: a call may have asked for a narrower one."""
    fingerprint: str
    """The settings', with the administrator's cap."""
    roots: tuple[str, ...]
    user: int
    source: str = ""
    """What else is taken away or gets another name, where commands may not change that."""


def subject_of(
    question: PermissionNeeded, policy: str, fingerprint: str, roots: tuple[str, ...], user: int
) -> Subject:
    decision = question.decision
    return Subject(
        question.capability,
        question.operation,
        question.host,
        question.port,
        question.path,
        question.command,
        question.cwd,
        question.program,
        decision.sandboxed,
        tuple((each.field, each.value) for each in decision.widening),
        tuple((reason.step.value, reason.rule, reason.arguments) for reason in decision.reasons),
        policy,
        fingerprint,
        roots,
        user,
        question.source,
    )


class Remembered(Struct, frozen=True):
    """An answer that holds for longer than one run."""

    id: str
    answer: Answer
    session: str
    """Where it was given. One of `session` holds there alone."""
    subject: Subject
    reach: Reach
    by: str
    made: float
    """Seconds since 1970."""
    expires: float | None
    """None is never."""

    def is_alive(self, now: float) -> bool:
        # One from the future was made by a clock that was wrong: its age is not known.
        return self.made <= now + 86400 and (self.expires is None or now < self.expires)

    def answers(self, session: str, subject: Subject) -> bool:
        """Whether it speaks for what is asked about."""
        if self.answer is Answer.SESSION and self.session != session:
            return False
        return _left(self.subject, self.reach) == _left(subject, self.reach) and self._contains(subject)

    def _contains(self, subject: Subject) -> bool:
        if self.reach is not Reach.DIRECTORY:
            return True
        inside = directory_of(self.subject.path) + "/"
        paths = (subject.path, *filter(None, [subject.source]))
        return all(path.startswith(inside) and "/../" not in f"{path}/" for path in paths)


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def _left(subject: Subject, reach: Reach) -> tuple[object, ...]:
    """What must be the same of two subjects."""
    s = subject
    always = (s.capability, s.sandboxed, s.widening, s.policy, s.fingerprint, s.roots, s.user)
    if reach is Reach.DIRECTORY:
        # What is protected there is another matter than what merely lies there.
        return (*always, tuple((step, rule) for step, rule, _ in s.reasons))
    # All git writes of a repository are one grant, whichever call comes first.
    is_git_writes = [step for step, _, _ in s.reasons] == [StepCode.GIT_WRITES] and s.path.endswith("/.git")
    operation = "" if is_git_writes else s.operation
    target = (*always, operation, s.host, s.port, s.path, s.source, s.reasons)
    return target if reach is Reach.TARGET else (*target, s.command, s.cwd, s.program)
