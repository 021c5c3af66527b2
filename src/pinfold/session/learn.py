"""A run that is learned from: what it asked for and was refused, and what settings would have to add for it.

Why it is done so. A run that allows everything, to see what is wanted, has done the harm before a person has
looked; one that keeps its writes in a layer of its own shows programs a machine that is not there. So
`learn` runs the command like any other: in the sandbox, under the settings in force. At a terminal it asks
the person while the call waits, and each yes lets the command go on to its next need. Without a person to
ask, the command gets as far as the settings let it, and the next run learns the rest.

INVARIANT: learning widens nothing. Nothing is granted but by a person's answer, nothing is written but by
`accept`, and what is proposed was held against the settings that would come of it.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pinfold.approval.chain import Approver, is_there, name_of, withdraw
from pinfold.model.decision import StepCode, Verdict
from pinfold.model.home import expanded
from pinfold.model.permission import LASTING, Answer, Capability, PermissionNeeded, Reach, Reply
from pinfold.model.settings import NetworkAccess
from pinfold.model.violation import READ, Violation
from pinfold.policy.connect import check_host
from pinfold.policy.grants import ANYWHERE, REMOVING, TREE
from pinfold.policy.hosts import Pattern, parse_pattern
from pinfold.policy.learning import (
    CONNECT,
    GIT_WRITES,
    HOSTS,
    RUN,
    SOCKETS,
    WRITE,
    MachineFacts,
    NotProposed,
    PersonAnswer,
    Proposal,
    ProposedSetting,
    WantedAccess,
    propose,
)
from pinfold.policy.paths import contains, is_covered
from pinfold.policy.shipped_protected import protected_by
from pinfold.settings.change import add_values, with_values
from pinfold.settings.files import read_text

if TYPE_CHECKING:
    from pinfold.session.judge import Judge
    from pinfold.session.session import Session

SOCKET_VARIABLES = ("SSH_AUTH_SOCK",)
SETTING = "setting"
OTHERWISE = "another setting still forbids it"
UNSEEN = "it did not run in the sandbox, so it is not known what it would need there"


class Listener:
    """An approver that remembers what another one was asked, and said. May be used from any thread."""

    def __init__(self, person: Approver) -> None:
        self.name = name_of(person)
        self._person = person
        self.heard: list[tuple[PermissionNeeded, Answer | Reply | None]] = []

    def __call__(self, question: PermissionNeeded) -> Answer | Reply | None:
        reply = self._person(question)
        self.heard.append((question, reply))
        return reply

    def is_there(self) -> bool:
        return is_there(self._person)

    def withdraw(self, question: PermissionNeeded) -> None:
        withdraw(self._person, question)


class Learned(Struct, frozen=True):
    """What came of it, for a person to accept."""

    proposal: Proposal
    file: str
    """The settings that it would be added to; empty where they are no file."""
    before: str | None
    """What is in it; None if it is not there."""
    after: str
    notes: tuple[str, ...] = ()
    was_seen: bool = True
    """Whether it ran in the sandbox, which sees what it wants."""


def learn(session: "Session", listener: Listener, violations: Iterable[Violation]) -> Learned:
    """What a run in this session has shown. Changes nothing."""
    records = tuple(records_of(listener.heard, violations, session))
    around = MachineFacts(os.path.lexists, _programs(session), _sockets(session))
    proposal = propose(records, session.grant_context(), around)
    return _proven(session, proposal, tuple(_notes(session, proposal, records)))


def chosen(session: "Session", learned: Learned, entries: Sequence[ProposedSetting]) -> Learned:
    """What was learned, with only these entries of the proposal."""
    return _proven(session, replace(learned.proposal, entries=tuple(entries)), learned.notes)


def accept(learned: Learned) -> bool:
    """Adds it to the user's settings as they are by now; False where all of it was there."""
    for directory in learned.proposal.new_directories:
        with suppress(FileExistsError):
            os.mkdir(directory)
    return add_values(learned.file, _values(learned.proposal.entries))


def _values(entries: Iterable[ProposedSetting]) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in entries]


# What was wanted


def records_of(
    heard: Iterable[tuple[PermissionNeeded, Answer | Reply | None]],
    violations: Iterable[Violation],
    session: "Session",
) -> Iterator[WantedAccess]:
    """Every question with its answer, and every refusal that was not asked about."""
    protected = session.policy.protected
    asked = [_of_question(question, reply, protected) for question, reply in heard]
    yield from asked
    for violation in violations:
        alike = [record for record in asked if _is_about(record, violation)]
        refused = any(record.answer is PersonAnswer.NO for record in alike)
        if not any(record.operation in (violation.operation, TREE) for record in alike):
            yield _of_violation(violation, PersonAnswer.NO if refused else PersonAnswer.NOTHING)


def _is_about(record: WantedAccess, violation: Violation) -> bool:
    if record.is_git or (record.operation == TREE and violation.operation in REMOVING):
        return contains(record.paths[0], violation.path)
    return violation.path in record.paths


def _of_question(
    question: PermissionNeeded, reply: Answer | Reply | None, protected: tuple[str, ...]
) -> WantedAccess:
    answer = _answer_of(reply)
    reason = question.decision.reasons[0]
    match question.capability:
        case Capability.CONNECT:
            target = str(Pattern(question.host, question.port))
            return WantedAccess(CONNECT, (target,), reason.rule, reason.message, question.program, answer)
        case Capability.WRITE:
            paths = (question.path, *filter(None, [question.source]))
            named = protected_by(question.path, ANYWHERE, protected)
            return WantedAccess(
                question.operation,
                paths,
                reason.rule if reason.step is StepCode.PROTECTED else "",
                named.why if named else reason.message,
                question.program,
                answer,
                is_git=reason.step is StepCode.GIT_WRITES,
                directory=question.directory if _is_whole(reply) else "",
            )
    return WantedAccess(RUN, question.rules, why=reason.message, answer=answer)


def _answer_of(reply: Answer | Reply | None) -> PersonAnswer:
    if reply is None:
        return PersonAnswer.NOTHING
    answer = reply.answer if isinstance(reply, Reply) else reply
    return PersonAnswer.NO if answer == Answer.NO else PersonAnswer.YES


def _is_whole(reply: Answer | Reply | None) -> bool:
    return isinstance(reply, Reply) and reply.reach is Reach.DIRECTORY and reply.answer in LASTING


def _of_violation(violation: Violation, answer: PersonAnswer) -> WantedAccess:
    each = violation
    why = each.why
    if each.operation == READ:
        why = f"{why} by `{each.rule}`" if each.rule else why
        told = (
            why,
            each.origin and f"written in {each.origin}",
            each.remedy and f"to allow it: {each.remedy}",
        )
        why = "; ".join(filter(None, told))
    return WantedAccess(
        each.operation, (each.path,), each.rule, why, each.program, answer, is_git=each.is_git_writes
    )


# What is around


def _programs(session: "Session") -> tuple[str, ...]:
    named = session.environ.get("PATH", os.defpath).split(":")
    return tuple(dict.fromkeys(os.path.realpath(path) for path in named if path.startswith("/")))


def _sockets(session: "Session") -> dict[str, str]:
    values = ((name, session.environ.get(name, "")) for name in SOCKET_VARIABLES)
    return {name: os.path.realpath(value) for name, value in values if value.startswith("/")}


def _notes(session: "Session", proposal: Proposal, records: Iterable[WantedAccess]) -> Iterator[str]:
    if not session.counts["sandboxed"]:
        yield UNSEEN
    elif session.settings.network.access in (NetworkAccess.NONE, NetworkAccess.RULES):
        yield "a host that is not allowed is not even looked up here: to learn hosts, add `--network ask`"
    for directory in proposal.new_directories:
        yield f"{directory} is not there yet: it is made with the entry, so that nothing above it is opened"
    if any(record.answer is not PersonAnswer.YES and record.operation != READ for record in records):
        yield "a denial may have stopped the command early: learn again after this change"


# What would come of it


def _proven(session: "Session", proposal: Proposal, notes: tuple[str, ...]) -> Learned:
    """Without what the settings that come of it would not honour: a project's may narrow, an administrator's
    may cap."""
    file, was_seen = session.settings_file, bool(session.counts["sandboxed"])
    if not file:
        return Learned(proposal, "", None, "", notes, was_seen)
    before = read_text(file)
    with_all = session.supposing(tomllib.loads(with_values(before or "", _values(proposal.entries))))
    kept = tuple(entry for entry in proposal.entries if _holds(entry, with_all, session))
    lost = (entry for entry in proposal.entries if entry not in kept)
    left = (NotProposed(WantedAccess(SETTING, (f"{entry.key}: {entry.value}",)), OTHERWISE) for entry in lost)
    written = {expanded(entry.value, with_all.home) for entry in kept if entry.key == WRITE}
    makes = tuple(path for path in proposal.new_directories if path in written)
    proposal = Proposal(kept, (*proposal.not_proposed, *left), makes)
    after = with_values(before or "", _values(kept))
    return Learned(proposal, file, before, after, notes, was_seen)


def _holds(entry: ProposedSetting, judge: "Judge", session: "Session") -> bool:
    policy, value = judge.source.policy, expanded(entry.value, judge.home)
    if entry.key == WRITE:
        return is_covered(os.path.realpath(value), policy.additional_readwrite_paths)
    if entry.key == GIT_WRITES:
        return not policy.block_git_writes
    if entry.key == HOSTS:
        pattern = parse_pattern(value)
        return check_host(pattern.name, pattern.port, judge.source.settings, policy).verdict is Verdict.ALLOW
    if entry.key == SOCKETS:
        path = session.environ.get(value[1:], "") if value.startswith("$") else value
        return path in policy.unix_sockets
    return True
