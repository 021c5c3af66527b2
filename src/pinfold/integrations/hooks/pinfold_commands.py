"""`pinfold status`, `pinfold exclude add` and their like, given by an agent because its person wants to see
or change the fence: they run outside of it, where what they show and change is.

Looking needs no question, unless a person is to see this line whatever it does: by a rule, a hook or the
mode. A change is always a question to the person, whatever the mode: an agent does not
open its own fence. Only the plain forms count, and the line is written anew from their words.
"""

import os

from pinfold.integrations.hooks.hook_call import Call, Mode, Opinion, Outcome
from pinfold.integrations.hooks.rewrite import own_program
from pinfold.model.decision import Decision, StepCode
from pinfold.model.escape_text import quoted

LOOKS = (("status",), ("doctor",), ("prompt",), ("exclude", "list"), ("rules", "list"), ("settings", "show"))
CHANGES: dict[tuple[str, ...], int] = {
    ("exclude", "add"): 3,
    ("exclude", "remove"): 3,
    ("rules", "add"): 4,
    ("rules", "remove"): 4,
}
"""The words of a change, and how many there are of them with its arguments."""

SEEN = frozenset([StepCode.PERSON_WANTED, StepCode.ASKED_BY_HOOK, StepCode.ASK_RULES])
"""The steps of a decision by which somebody wants to see a line."""


def own_verb(call: Call, decision: Decision) -> Outcome | None:
    """What is to be done about it; None where it is another command."""
    if len(decision.commands) != 1 or not call.can_rewrite:
        return None
    (command,) = decision.commands
    words = command.argv[1:]
    if command.computed or os.path.basename(command.argv[0]) != "pinfold":
        return None
    line = " ".join(map(quoted, [*own_program(), *words]))
    if words in LOOKS:
        is_seen = call.mode is Mode.PLAN or any(reason.step in SEEN for reason in decision.reasons)
        return Outcome(Opinion.ASK if is_seen else Opinion.ALLOW, "it shows how the fence stands", line)
    if CHANGES.get(words[:2]) == len(words) and not any(word.startswith("-") for word in words):
        return Outcome(Opinion.ASK, "it changes the fence; run it yourself if nobody asks you", line)
    return None
