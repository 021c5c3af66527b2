"""What may be answered to a question. Pure."""

from pinfold.model.decision import Decision, StepCode
from pinfold.model.permission import Answer, Capability
from pinfold.model.settings import Settings

ONCE = (Answer.NO, Answer.ONCE)
SESSION = (*ONCE, Answer.SESSION)
ALWAYS = (*SESSION, Answer.ALWAYS)

SEEN_EACH_TIME = frozenset(
    {StepCode.TOO_LONG, StepCode.RUINOUS, StepCode.BYPASS, StepCode.CHANGES_PINFOLD, StepCode.SUPERUSER}
)
"""Steps that nothing lifts: one answer is for one run."""
SEEN_EACH_SESSION = frozenset({StepCode.NO_FENCE, StepCode.WIDENING, StepCode.ASKED_BY_HOOK})
"""Steps that depend on more than the settings: an answer does not outlast its session."""


def choices_of(decision: Decision, capability: Capability, settings: Settings) -> tuple[Answer, ...]:
    """What may be answered, without a rule."""
    steps = {reason.step for reason in decision.reasons}
    by_administrator = StepCode.PERSON_WANTED in steps and settings.admin.disabled
    if capability is Capability.BYPASS or steps & SEEN_EACH_TIME or by_administrator:
        return ONCE
    return SESSION if capability is Capability.WIDEN or steps & SEEN_EACH_SESSION else ALWAYS


def host_rules(host: str, port: int, decision: Decision, settings: Settings) -> tuple[str, ...]:
    """The rule that would have let a connection pass; none where nothing the user writes would."""
    from pinfold.policy.hosts import Pattern

    is_open = decision.reasons[0].step is StepCode.NETWORK_ACCESS
    managed = settings.origin("network.allow").layer == "managed"
    return (str(Pattern(host, port)),) if is_open and not managed else ()
