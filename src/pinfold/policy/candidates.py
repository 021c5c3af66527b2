"""What a person might add to the allowlist so as not to be asked again.

A candidate is offered only if adding it would really cover the part, and never if it would open an
interpreter, a shell or more rights: a rule `python3` is a rule for everything.
"""

from pinfold.model.script import Command, Trait
from pinfold.policy.case import Case
from pinfold.policy.rules import writes_somewhere

NEVER = frozenset({Trait.INTERPRETER, Trait.ELEVATES, Trait.TRANSPARENT, Trait.REDEFINED, Trait.CHANGES_PINFOLD})


def candidates(case: Case) -> tuple[str, ...]:
    """The entries that would cover the parts not covered yet, in the line's order."""
    if case.settings.admin.enabled:
        return ()
    offered = (_candidate(part, case) for part in case.parts if not case.cover(part))
    return tuple(dict.fromkeys(text for text in offered if text))


def _candidate(part: Command, case: Case) -> str:
    if part.traits & NEVER or part.hazards or not part.program or writes_somewhere(part):
        return ""
    words = _literal_prefix(part)
    if not words:
        return ""
    shown = words if _is_composite(part, case) else words[:1]
    if _is_composite(part, case) and len(shown) < min(2, len(part.words)):
        return ""
    return " ".join(_quoted(word) for word in shown)


def _is_composite(part: Command, case: Case) -> bool:
    """Whether the program's name alone says too little: `git`, or anything that deletes."""
    return part.program in case.settings.commands.composite or bool(part.deletes)


def _literal_prefix(part: Command) -> list[str]:
    words: list[str] = []
    for word in part.words:
        if word.literal is None:
            break
        words.append(word.literal)
    return words


def _quoted(word: str) -> str:
    plain = word and all(c.isalnum() or c in "-_./:=+,%@" for c in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"


