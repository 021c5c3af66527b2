"""A line becomes one that runs it in a pen, and back.

INVARIANT: the line that was asked for stands in the new one as one word, character by character. A line
counts as wrapped by us only if wrapping what it holds gives that very line again: no option of an agent's
own fits in.
"""

import os
import re
import sys
from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from pinfold.integrations.hooks.hook_call import HookCall, HookOutcome, Mode, Opinion
from pinfold.isolated import SOURCE, own_command
from pinfold.model.decision import Decision, StepCode
from pinfold.model.escape_text import quoted

PLAN_POLICY = "read-only"
LAUNCHER = os.path.join(SOURCE, "pinfold", "launcher.sh")
_PROJECT = re.compile(r"--project ((?:'[^']*'|\\'|[^\s'])+) ")


@cache
def own_program() -> tuple[str, ...]:
    """How pinfold is started from anywhere: by the whole path of our launcher, or else of our Python.

    A script of another version of ours, which a variable could lead elsewhere, is not taken for the launcher.
    """
    script = os.path.join(os.path.dirname(sys.executable), "pinfold")
    return (script,) if os.access(script, os.X_OK) and _is_launcher(script) else own_command()


def _is_launcher(script: str) -> bool:
    try:
        with open(script, "rb") as found, open(LAUNCHER, "rb") as ours:
            return found.read() == ours.read()
    except OSError:
        return False


def wrapped(
    line: str, agent: str, roots: tuple[str, ...], *, is_plan: bool = False, bypass: bool = False
) -> str:
    return " ".join([_head(agent, roots, is_plan=is_plan, bypass=bypass), quoted(line)])


class Wrapped(NamedTuple):
    """What a line that we made runs, and for whom."""

    line: str
    agent: str
    leaves_fence: bool
    """Whether it asks to run outside."""


def unwrapped(line: str, agents: Collection[str], roots: tuple[str, ...]) -> Wrapped | None:
    """What a line that we made runs, in projects of these; None for any other.

    `agents` are many: some load the hooks of others too, and run the line that one of them made.
    """
    start = " ".join(map(quoted, [*own_program(), "run", "--asked-by"])) + " "
    if not line.startswith(start):
        return None
    agent, projects = _taken_apart(line.removeprefix(start))
    if agent not in agents or not projects or not set(projects) <= set(roots):
        return None
    for is_plan in (False, True):
        for bypass in (False, True):
            head = _head(agent, projects, is_plan=is_plan, bypass=bypass) + " "
            inner = _unquoted(line.removeprefix(head)) if line.startswith(head) else None
            if inner is not None:
                return Wrapped(inner, agent, bypass)
    return None


def _taken_apart(text: str) -> tuple[str, tuple[str, ...]]:
    """The agent and the projects of a line that may be ours; the caller puts it together again to see."""
    agent, _, rest = text.partition(" ")
    projects: list[str] = []
    while found := _PROJECT.match(rest):
        projects.append(_unquoted(found[1]) or "")
        rest = rest[found.end() :]
    return agent, tuple(projects)


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


def own_verb(call: HookCall, decision: Decision) -> HookOutcome | None:
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
        return HookOutcome(Opinion.ASK if is_seen else Opinion.ALLOW, "it shows how the fence stands", line)
    if CHANGES.get(words[:2]) == len(words) and not any(word.startswith("-") for word in words):
        return HookOutcome(Opinion.ASK, "it changes the fence; run it yourself if nobody asks you", line)
    return None
