"""Lets every attack loose, one at a time, and judges from outside what came of it."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

import pinfold
from pinfold.diagnose.selftest.scratch import Scratch, changed, snapshot
from pinfold.model.errors import ConfinementError
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.attacks.attack import Attack, AttackStage
from pinfold.sandbox.attacks.processes import LOCK, STOP
from pinfold.sandbox.attacks.runner import ATTACKS, HELD, THROUGH, UNTRIED
from pinfold.sandbox.backend import Backend, CommandResult, SandboxSession, StartRequest

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(pinfold.__file__)))
PROGRAM = "import sys; sys.path.insert(0, {!r}); from pinfold.sandbox.attacks.runner import main; main()"
PATIENCE = 8.0
SHORT = 0.6
"""Seconds that an attack gets which is to be ended by its time limit."""
PLAIN = "create_outside"
"""What is tried once more in a pen that replaces another."""


class AttackResult(Struct, frozen=True):
    """What became of one attack."""

    name: str
    tries: str
    claim: str
    outcome: str
    detail: str
    needs_root: bool

    @property
    def is_through(self) -> bool:
        return self.outcome == THROUGH

    @property
    def is_held(self) -> bool:
        return self.outcome == HELD


AttackAnswers = dict[str, tuple[str, str]]


def attack_all(backend: Backend, scratch: Scratch) -> Iterator[AttackResult]:
    """Every attack on this backend, in order."""
    session = backend.open_session([scratch.work], scratch.survey)
    try:
        for stage, group in groupby(ATTACKS.values(), lambda attack: (attack.stage, attack.run.__module__)):
            yield from _group(backend, session, scratch, stage[0], tuple(group))
    finally:
        session.close()


def _group(
    backend: Backend,
    session: SandboxSession,
    scratch: Scratch,
    stage: AttackStage,
    attacks: tuple[Attack, ...],
) -> Iterator[AttackResult]:
    """Attacks that one process can try together; if anything came of them, each again by itself."""
    if len(attacks) > 1 and stage is AttackStage.AFTER:
        answers = _said(session.run(_request(attacks, scratch)))
        if not scratch.harm() and all(attack.name in answers for attack in attacks):
            yield from (_finding(attack, *answers[attack.name]) for attack in attacks)
            return
        scratch.furnish()
    for attack in attacks:
        outcome, detail = STAGES[attack.stage](backend, session, scratch, attack)
        if harm := scratch.harm():
            outcome, detail = THROUGH, harm
        yield _finding(attack, outcome, detail)


def _finding(attack: Attack, outcome: str, detail: str) -> AttackResult:
    return AttackResult(attack.name, attack.tries, attack.claim, outcome, detail, attack.needs_root)


def _after(_: Backend, session: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    return _told(session.run(_request((attack,), scratch)))


def _twice(_: Backend, session: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    answers = [_told(session.run(_request((attack,), scratch))) for _ in range(2)]
    scratch.furnish()
    return next((answer for answer in answers if answer[0] == THROUGH), answers[-1])


def _other(_: Backend, session: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    policy = replace(scratch.policy, protected=(*scratch.policy.protected, f"{scratch.work}/kept"))
    prepared = _told(session.run(_request((attack,), scratch)))
    answer = _told(session.run(_request((attack,), scratch, policy=policy)))
    scratch.furnish()
    return prepared if prepared[0] == UNTRIED else answer


def _timeout(_: Backend, session: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    session.run(_request((attack,), scratch, SHORT))
    return _lives_on(scratch)


def _close(backend: Backend, _: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    own = backend.open_session([scratch.work], scratch.survey)
    own.run(_request((attack,), scratch))
    own.close()
    return _lives_on(scratch)


def _leftovers(backend: Backend, _: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    before = snapshot(scratch.work)
    own = backend.open_session([scratch.work], scratch.survey)
    own.run(_request((attack,), scratch))
    meanwhile = snapshot(scratch.work)
    own.close()
    found = changed(before, meanwhile) or changed(before, snapshot(scratch.work))
    return (THROUGH, f"found {found}") if found else (HELD, "the workspace is as it was")


def _replaced(_: Backend, session: SandboxSession, scratch: Scratch, attack: Attack) -> tuple[str, str]:
    try:
        outcome, detail = _told(session.run(_request((attack,), scratch)))
        if outcome == UNTRIED:
            return outcome, detail
    except ConfinementError:
        pass  # the pen broke, as the attack wanted; what counts is what comes now
    return _told(session.run(_request((ATTACKS[PLAIN],), scratch)))


StageRunner = Callable[[Backend, SandboxSession, Scratch, Attack], tuple[str, str]]
STAGES: dict[AttackStage, StageRunner] = {
    AttackStage.AFTER: _after,
    AttackStage.TWICE: _twice,
    AttackStage.OTHER: _other,
    AttackStage.TIMEOUT: _timeout,
    AttackStage.CLOSE: _close,
    AttackStage.LEFTOVERS: _leftovers,
    AttackStage.REPLACED: _replaced,
}


def _request(
    attacks: tuple[Attack, ...],
    scratch: Scratch,
    timeout: float = PATIENCE,
    policy: SandboxPolicy | None = None,
) -> StartRequest:
    names = (attack.name for attack in attacks)
    # Where Python or pinfold lie in a place that a pen has of its own, such as /tmp, they are shown in it.
    places = (sys.prefix, sys.base_prefix, SOURCE)
    return StartRequest(
        (sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(SOURCE), *names),
        replace(policy or scratch.policy, additional_readonly_paths=places),
        scratch.work,
        environment=scratch.environment(),
        stdin=json.dumps(scratch.targets()._asdict()).encode(),
        timeout=timeout,
        output=100_000,
    )


def _said(result: CommandResult) -> AttackAnswers:
    found: AttackAnswers = {}
    for line in result.stdout.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            found[said["name"]] = (said["outcome"], said["detail"])
    return found


def _told(result: CommandResult) -> tuple[str, str]:
    """What an attack that ran alone says of itself."""
    for answer in _said(result).values():
        return answer
    if result.timed_out:
        return HELD, "it hung until it was ended"
    if result.signal is not None:
        return HELD, f"it was ended by signal {result.signal}"
    error = os.fsdecode(result.stderr.rstrip(b"\n").rpartition(b"\n")[2])
    return UNTRIED, f"it could not be run: {error or f'exit {result.exit_code}'}"


def _lives_on(scratch: Scratch) -> tuple[str, str]:
    """Whether a process still holds the lock that the daemon took."""
    path = f"{scratch.work}/{LOCK}"
    try:
        if os.path.getsize(path) == 0:
            return UNTRIED, "the daemon could not be started"
        return (THROUGH, "it lives on") if _is_held(path) else (HELD, "it was ended")
    finally:
        _end_daemon(scratch, path)


def _is_held(path: str) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _end_daemon(scratch: Scratch, path: str) -> None:
    with open(f"{scratch.work}/{STOP}", "w"):
        pass
    while _is_held(path):
        time.sleep(0.01)
    os.truncate(path, 0)
    os.unlink(f"{scratch.work}/{STOP}")
