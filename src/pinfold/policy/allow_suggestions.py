"""What a person might add to the allowlist so as not to be asked again.

A candidate is offered only if adding it would really cover the part, and never if it would open an
interpreter, a shell or more rights: a rule `python3` is a rule for everything.
"""

from itertools import takewhile

from pinfold.model.quoting import quoted
from pinfold.model.script import Command, Trait
from pinfold.policy.command_context import Case
from pinfold.policy.rules import writes_somewhere

NEVER = frozenset(
    {Trait.INTERPRETER, Trait.ELEVATES, Trait.TRANSPARENT, Trait.REDEFINED, Trait.CHANGES_PINFOLD}
)


def candidates(case: Case) -> tuple[str, ...]:
    """The entries that would cover the parts not covered yet, in the line's order."""
    if case.settings.admin.enabled:
        return ()
    offered = (_candidate(part, case) for part in case.parts if not (case.cover(part) or case.shadow(part)))
    return tuple(dict.fromkeys(text for text in offered if text))


def _candidate(part: Command, case: Case) -> str:
    if part.traits & NEVER or part.hazards or not part.program or writes_somewhere(part):
        return ""
    words = [word.literal or "" for word in takewhile(lambda word: word.literal is not None, part.words)]
    if part.deletes and len(words) < len(part.words):
        # What is deleted is not known, and `rm -rf` alone would be a rule for everything.
        return ""
    if part.deletes or part.program in case.settings.commands.composite:
        # The name alone says too little: it is shown with its arguments, or not at all.
        return " ".join(map(quoted, words)) if len(words) >= min(2, len(part.words)) else ""
    return " ".join(map(quoted, words[:1]))
