"""Whether a question can be shown whole, and what may be answered to it. Pure.

INVARIANT (granted_is_what_was_shown): no face puts a question that some face could show only in part. So
each face draws all of it, and a yes covers only what was drawn.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from pinfold.model.decision import Decision, StepCode
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, Capability, PermissionNeeded
from pinfold.model.settings import Settings

MOST_WANTED = 12
"""Things that one yes may grant: a terminal of 24 lines has no room for more beside the answers."""
LONGEST_WANTED = 1000
"""Characters of one of them, as they are drawn: a path, a host."""
LONGEST_REASON = 4000
"""Characters of a sentence that names what a call wants, with each path in it."""
LONGEST_COMMAND = 20_000
"""Characters of a command, as they are drawn."""
LONGEST_TOLD = 8_900
"""Characters of what an agent's own dialog is told: Claude Code cuts it at 10,000, and a hook at 9,000."""
LONGEST_DESCRIPTION = 1000
"""Characters of the agent's own words. They grant nothing, so the rest of them is left out."""


def unshowable(question: PermissionNeeded) -> str:
    """Why a person cannot be shown all of it, and what would help; empty if they can."""
    wanted = [each.value for each in question.decision.widening]
    names = (*wanted, question.host, question.path, question.source, question.cwd)
    said = question.decision.reasons[:1] if question.path else ()
    if trouble := too_many(len(wanted)):
        return trouble
    if trouble := too_long(question.command):
        return trouble
    if any(_is_beyond(text, LONGEST_WANTED) for text in names):
        return (
            f"a path or host in it is longer than the {LONGEST_WANTED:,} characters that a question can show:"
            " use a shorter one"
        )
    if any(_is_beyond(reason.message, LONGEST_REASON) for reason in said):
        return f"its reason is longer than {LONGEST_REASON:,} characters, too long to show: use shorter paths"
    return ""


def too_many(number: int) -> str:
    """Why so many things are not asked about at once; empty if they are."""
    if number <= MOST_WANTED:
        return ""
    return f"it wants {number:,} things at once, and a person is shown {MOST_WANTED} at most: ask in parts"


def too_long(command: str) -> str:
    """Why a command is not asked about; empty if it is."""
    if not _is_beyond(command, LONGEST_COMMAND):
        return ""
    return (
        f"the line is longer than the {LONGEST_COMMAND:,} characters that a person is shown:"
        " put it into a script file and run that"
    )


def too_much_told(message: str) -> str:
    """Why an agent's own dialog is not asked to show this; empty if it can."""
    if len(message) <= LONGEST_TOLD:
        return ""
    return (
        f"what it wants takes more than the {LONGEST_TOLD:,} characters that a person is shown: ask in parts"
    )


def are_showable(rules: Iterable[str]) -> bool:
    """Whether an answer that adds these rules may be offered."""
    rules = tuple(rules)
    return len(rules) <= MOST_WANTED and not any(_is_beyond(rule, LONGEST_WANTED) for rule in rules)


def showable(question: PermissionNeeded) -> PermissionNeeded:
    """The question as it is put: without an answer whose rules cannot be shown, the agent's words cut."""
    if question.rules and not are_showable(question.rules):
        choices = tuple(choice for choice in question.choices if choice is not Answer.RULE)
        question = replace(question, rules=(), choices=choices)
    left_out = len(question.description) - LONGEST_DESCRIPTION
    if left_out <= 0:
        return question
    cut = f"{question.description[:LONGEST_DESCRIPTION]} [and {left_out:,} characters more]"
    return replace(question, description=cut)


def _is_beyond(text: str, most: int) -> bool:
    return len(text) > most or len(visible(text)) > most


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
