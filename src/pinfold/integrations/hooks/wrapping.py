"""A line becomes one that runs it in a pen, and back.

INVARIANT: the line that was asked for stands in the new one as one word, character by character. A line
counts as wrapped by us only if wrapping what it holds gives that very line again: no option of an agent's
own fits in.
"""

import os
import sys

from pinfold.model.quoting import quoted

PLAN_POLICY = "read-only"


def own_program() -> tuple[str, ...]:
    """How pinfold is started from anywhere: by its whole path."""
    script = os.path.join(os.path.dirname(sys.executable), "pinfold")
    return (script,) if os.access(script, os.X_OK) else (sys.executable, "-I", "-m", "pinfold")


def wrapped(
    line: str, agent: str, roots: tuple[str, ...], *, is_plan: bool = False, bypass: bool = False
) -> str:
    return " ".join([_head(agent, roots, is_plan=is_plan, bypass=bypass), quoted(line)])


def unwrapped(line: str, agent: str, roots: tuple[str, ...]) -> str | None:
    """What a line that we made runs; None for any other."""
    for is_plan in (False, True):
        for bypass in (False, True):
            head = _head(agent, roots, is_plan=is_plan, bypass=bypass) + " "
            if line.startswith(head):
                inner = _unquoted(line.removeprefix(head))
                if inner is not None:
                    return inner
    return None


def leaves_fence(line: str, agent: str, roots: tuple[str, ...]) -> bool:
    """Whether a line as we make them asks to run outside."""
    heads = (_head(agent, roots, is_plan=is_plan, bypass=True) for is_plan in (False, True))
    return any(line.startswith(f"{head} ") for head in heads)


def _head(agent: str, roots: tuple[str, ...], *, is_plan: bool, bypass: bool) -> str:
    words = [*own_program(), "run", "--asked-by", agent]
    for root in roots:
        words += ["--project", root]
    if is_plan:
        words += ["--policy", PLAN_POLICY]
    if bypass:
        words.append("--dangerously-disable-sandbox")
    return " ".join(map(quoted, [*words, "-c"]))


def _unquoted(word: str) -> str | None:
    text = word[1:-1].replace("'\\''", "'") if word[:1] == "'" else word
    return text if quoted(text) == word else None
