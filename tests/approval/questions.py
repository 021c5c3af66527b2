"""Questions, and people who answer them, for tests of the desk."""

import threading
from typing import Any

from msgspec.structs import replace

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.errors import PolicyError
from pinfold.model.permission import Answer, Capability, PermissionNeeded, Reply
from pinfold.model.policy import SandboxPolicy
from tests.patience import PATIENCE

EVERY = tuple(Answer)
DECISION = Decision(Verdict.ASK, (Reason(StepCode.OTHERWISE, "why", Verdict.ASK),), True, SandboxPolicy())
_QUESTION = PermissionNeeded("", "s", Capability.RUN, "touch x", "/w", DECISION, choices=EVERY)
_numbers = iter(range(1, 1 << 60))


def question(**given: Any) -> PermissionNeeded:
    """A question of its own, whatever else it is like."""
    return replace(_QUESTION, request_id=str(next(_numbers)), **given)


class Person:
    """Says the same to everything, and knows what was asked. `gate` holds the answer back."""

    name = "a person"

    def __init__(self, answer: Answer | Reply | None = Answer.ONCE) -> None:
        self.answer = answer
        self.asked: list[PermissionNeeded] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, question: PermissionNeeded) -> Answer | Reply | None:
        self.asked.append(question)
        self.gate.wait(PATIENCE)
        return self.answer


class Footing:
    """Settings that a test changes."""

    def __init__(self, file: str = "settings.toml") -> None:
        self.now, self.file = "settings", file
        self.projects: tuple[str, ...] = ("/w",)
        self.keep: float | None = None
        self.over: set[str] = set()
        self.written: list[tuple[str, tuple[str, ...]]] = []

    def fingerprint(self) -> str:
        return self.now

    def policy_fingerprint(self, policy: SandboxPolicy) -> str:
        return str(policy.type)

    def roots(self) -> tuple[str, ...]:
        return self.projects

    def lasts(self) -> float | None:
        return self.keep

    def is_under_way(self, run: str) -> bool:
        return run not in self.over

    def write_rules(self, key: str, rules: tuple[str, ...]) -> None:
        if not self.file:
            raise PolicyError("there is no file")
        self.written.append((key, rules))
