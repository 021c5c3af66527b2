"""A line becomes one that runs it in a pen, and back.

INVARIANT: the new line contains the requested one as one word, character by character. A line
counts as wrapped by us only if wrapping what it holds gives that very line again: no option of an agent's
own fits in.
"""

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import islice, product
from typing import NamedTuple

from pinfold.integrations.hooks.hook_call import HookCall, HookOutcome, Mode, Opinion
from pinfold.isolated import SOURCE, isolated_python, own_command, packages_apart
from pinfold.model.decision import Decision, StepCode
from pinfold.model.escape_text import quoted

PLAN_POLICY = "read-only"
LAUNCHER = os.path.join(SOURCE, "pinfold", "launcher.sh")
START = os.path.join(SOURCE, "pinfold", "integrations", "hooks", "start.py")
_ASKED_BY = re.compile(r"--asked-by ([a-z-]+) ")
_OFFER = re.compile(r"--offer ([0-9a-f]{16}) ")
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


class Wrapping(NamedTuple):
    """How a line is run in place of itself.

    With a conversation, the line goes to the service by its client; without one, `pinfold run` runs it
    alone. Claude Code keeps the directory that a line ends in, so the client tells that directory and the
    agent's shell enters it: the shell then has the client's exit code, or the directory.
    """

    agent: str
    roots: tuple[str, ...]
    conversation: str = ""
    is_plan: bool = False
    leaves_sandbox: bool = False
    """Whether it asks to run outside."""
    is_background: bool = False
    """Whether the agent lets it run in the background: it then has no time limit but a set one."""
    offer: str = ""
    """What is granted with this line, if the agent's person says yes to it (`GrantOffer.token`)."""
    stays: bool = False
    """Whether the line is known to end in the directory where it begins: then it reports no directory. The
    new line is one command then, which a rule of the agent's can name (`plan_rule`)."""

    def around(self, line: str) -> str:
        start, end = self._ends
        return f"{start}{quoted(line)}{end}"

    def inside(self, line: str) -> str | None:
        """The line that this wrapping is around; None if it is around none."""
        start, end = self._ends
        if not (line.startswith(start) and line.endswith(end)):
            return None
        return _unquoted(line[len(start) : len(line) - len(end)])

    @property
    def _ends(self) -> tuple[str, str]:
        start = " ".join(map(quoted, [*self._program, "--asked-by", self.agent, *self._options, "-c"])) + " "
        if self.conversation and self._tells_directory:
            return "{ d=$(" + start, ' 3>&1 >&4 4>&-); } 4>&1 && cd -- "${d:-.}"'
        return start, ""

    @property
    def _program(self) -> tuple[str, ...]:
        if not self.conversation or self.stays:
            return (*own_program(), "run")
        return client_program(keeps_directory=self._tells_directory)

    @property
    def _tells_directory(self) -> bool:
        return self.agent in KEEP_DIRECTORY and not self.stays

    @property
    def _options(self) -> Iterator[str]:
        if self.is_plan:
            yield from ("--policy", PLAN_POLICY)
        if self.conversation:
            yield from ("--conversation", self.conversation)
        for root in self.roots:
            yield from ("--project", root)
        if self.leaves_sandbox:
            yield "--dangerously-disable-sandbox"
        if self.is_background:
            yield "--background"
        if self.offer:
            yield from ("--offer", self.offer)


KEEP_DIRECTORY = frozenset(["claude-code"])
"""Agents whose next line begins in the directory where the last one ended."""


def has_launcher() -> bool:
    """Whether pinfold is started by a program of its own, and not by an interpreter's name."""
    return len(own_program()) == 1


def plan_rule(agent: str) -> str:
    """The rule of Claude Code's that allows the new lines of a plan.

    Fact (Claude Code 2.1.328): in plan mode a hook's allow is held back from any line that it does not itself
    know to read, and a rule's is not. Where its auto mode stands behind the plan, a rule that begins with an
    interpreter, and one for all of Bash, count for nothing.
    """
    words = (*own_program(), "run", "--asked-by", agent, "--policy", PLAN_POLICY)
    return f"Bash({' '.join(map(quoted, words))} *)"


class Wrapped(NamedTuple):
    """What a line that we made runs, and for whom."""

    line: str
    agent: str
    leaves_fence: bool
    """Whether it asks to run outside."""


def has_service(environ: Mapping[str, str]) -> bool:
    """Whether the service is to run the commands of conversations."""
    from pinfold.service.local_socket import is_wanted

    return is_wanted(environ)


def client_program(*, keeps_directory: bool) -> tuple[str, ...]:
    """How the client of a command is started from anywhere."""
    from pinfold.service.command_client import DIRECTORY

    return isolated_python(START, *packages_apart(), "--run", *([DIRECTORY] if keeps_directory else ()))


def unwrapped(
    line: str, agents: Collection[str], roots: tuple[str, ...], conversation: str = ""
) -> Wrapped | None:
    """What a line that we made runs, in projects of these and for this conversation; None for any other.

    `agents` are many: some load the hooks of others too, and run the line that one of them made.
    """
    said = _ASKED_BY.search(line)
    agent = said[1] if said else ""
    if agent not in agents:
        return None
    offer = found[1] if (found := _OFFER.search(line)) else ""
    for wrapped_for, offered in dict.fromkeys(product((conversation, ""), ("", offer))):
        for is_plan, bypass, in_background, stays in product((False, True), repeat=4):
            # The projects are what the line says they are, if those are ours.
            projects = tuple(_unquoted(each[1]) or "" for each in islice(_PROJECT.finditer(line), len(roots)))
            for count in range(len(projects), 0, -1):
                if set(projects[:count]) <= set(roots):
                    inner = Wrapping(
                        agent, projects[:count], wrapped_for, is_plan, bypass, in_background, offered, stays
                    ).inside(line)
                    if inner is not None:
                        return Wrapped(inner, agent, bypass)
    return None


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
"""The steps of a decision by which a person, a hook or a rule wants a line shown."""


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
        return HookOutcome(Opinion.ASK if is_seen else Opinion.ALLOW, "it shows the sandbox's status", line)
    if CHANGES.get(words[:2]) == len(words) and not any(word.startswith("-") for word in words):
        return HookOutcome(Opinion.ASK, "it changes the sandbox; run it yourself if you are not asked", line)
    return None
