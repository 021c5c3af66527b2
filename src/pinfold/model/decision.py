"""The answer to a request: allow, ask or deny, and why."""

from enum import StrEnum

from msgspec import Struct

from pinfold.model.policy import SandboxPolicy
from pinfold.model.text import Origin, Span


class Verdict(StrEnum):
    """The refusing one stands first: it is what any doubt falls to."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class Reason(Struct, frozen=True):
    """One step that spoke."""

    step: str
    """The step's name, as in `policy.steps`."""
    message: str
    """What was found, in one line; the user's text in backticks."""
    verdict: Verdict
    """What this step alone would answer."""
    rule: str = ""
    """The rule that matched, as its author wrote it."""
    origin: Origin | None = None
    """Where that rule or setting is written."""
    span: Span | None = None
    """The part of the line this is about; None is the whole of it."""
    remedy: str = ""
    """What would change the answer."""


class Widening(Struct, frozen=True):
    """One thing a requested policy wants beyond what the user's own gives."""

    field: str
    """The field of `SandboxPolicy`."""
    value: str
    """What is wanted, such as a path or a host."""


class JudgedCommand(Struct, frozen=True):
    """One simple command as it was understood."""

    argv: tuple[str, ...]
    """Its words; a word that only the shell can compute stands as it was written."""
    text: str
    span: Span
    computed: tuple[int, ...] = ()
    """Which of `argv` only the shell can compute."""


class Decision(Struct, frozen=True):
    """What is to be done, and every reason for it; the one that decided stands first."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    sandboxed: bool
    """Whether it runs inside the fence, if it runs."""
    policy: SandboxPolicy
    """The effective policy, without anything that is still to be approved."""
    widening: tuple[Widening, ...] = ()
    """What approval would add to `policy`, by name."""
    commands: tuple[JudgedCommand, ...] = ()
    candidates: tuple[str, ...] = ()
    """What a person might add to the allowlist so as not to be asked again."""
