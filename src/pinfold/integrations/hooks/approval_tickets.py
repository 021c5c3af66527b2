"""A yes that a person gave in an agent's own dialogue reaches the run that it was given for.

A hook that answers "ask" leaves a ticket: what is asked for, to the letter. The agent runs the line only
once its person said yes, and the run, which asks for itself, finds the ticket and takes it. A ticket is
valid once, for an hour, and for the very same line, directory and policy. No process in a pen sees the
tickets, and none is written where another user could have put one.

No agent reports that the person said no. But a run takes its ticket as soon as the person said yes. So a
ticket that is still there at the person's next message in the conversation was answered with no, and is
removed. It is also removed when the same line comes again and needs no question.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from time import time

from msgspec import json

from pinfold.integrations.hooks.hook_call import HookCall
from pinfold.model.decision import Decision
from pinfold.model.errors import ConfinementError
from pinfold.model.permission import Answer, Capability, PermissionNeeded
from pinfold.state.directory import is_private, state_directory

Environ = Mapping[str, str]
HOUR = 3600.0
ANSWERED = (Capability.RUN, Capability.WIDEN, Capability.BYPASS)


def leave(call: HookCall, agent: str, command: str, cwd: str, decision: Decision, environ: Environ) -> None:
    directory = _directory(environ)
    key = _key(agent, command, cwd, decision)
    path = os.path.join(directory, f"{key}.{os.urandom(8).hex()}{'.'.join(_turn(call))}")
    try:
        for each in (os.path.dirname(directory), directory):
            os.makedirs(each, mode=0o700, exist_ok=True)
        _sweep(directory)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.utime(descriptor, (time(), time()))  # by this clock, where a home's server has another
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfinementError(f"the question cannot be recorded in {directory}: {error.strerror}") from None


def forget_answered(call: HookCall, environ: Environ) -> None:
    """Takes back what was left in earlier turns of a conversation."""
    directory = _directory(environ)
    names = _names(directory)  # most often there are none
    if not names or not (call.conversation and call.generation):
        return
    _, conversation, generation = _turn(call)
    for name in names:
        parts = name.split(".")
        if parts[2:3] == [conversation] and parts[3:] != [generation]:
            with suppress(OSError):
                os.unlink(os.path.join(directory, name))


def _turn(call: HookCall) -> tuple[str, str, str]:
    """What is added to a ticket's name to know its conversation and turn by."""
    conversation = sha256(f"{call.agent} {call.conversation}".encode()).hexdigest()[:16]
    return "", conversation, sha256(call.generation.encode()).hexdigest()[:16]


def withdraw(agent: str, command: str, cwd: str, decision: Decision, environ: Environ) -> None:
    """Removes the tickets for it: the person who was asked said no, or has not said yes."""
    key = _key(agent, command, cwd, decision)
    while _take(_directory(environ), key):
        continue


class AgentApprover:
    """Says yes where the agent's person did."""

    def __init__(self, agent: str, environ: Mapping[str, str]) -> None:
        self.name = f"the person, as {agent} asked"
        self._agent, self._environ = agent, environ

    @staticmethod
    def is_there() -> bool:
        """No call waits for it: it answers only what was asked before the run."""
        return False

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        if question.capability not in ANSWERED:
            return None
        key = _key(self._agent, question.command, question.cwd, question.decision)
        directory = _directory(self._environ)
        return Answer.ONCE if is_private(directory) and _take(directory, key) else None


def _take(directory: str, key: str) -> bool:
    for name in _names(directory):
        path = os.path.join(directory, name)
        try:
            is_fresh = _is_fresh(path)
            if name.startswith(f"{key}."):
                os.unlink(path)  # the process that unlinks it has it: two runs cannot
                if is_fresh:
                    return True
        except OSError:
            continue
    return False


def _sweep(directory: str) -> None:
    for name in _names(directory):
        path = os.path.join(directory, name)
        try:
            if not _is_fresh(path):
                os.unlink(path)
        except OSError:
            continue


def _is_fresh(path: str) -> bool:
    """A ticket with a time in the future is not: the clock was set back since, and its age is unknown."""
    return 0 <= time() - os.stat(path).st_mtime < HOUR


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _directory(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "tickets")


def _key(agent: str, command: str, cwd: str, decision: Decision) -> str:
    """Everything that the yes depends on."""
    facts = [agent, command, cwd, decision.sandboxed, decision.widening, decision.policy]
    return sha256(json.encode(facts, order="sorted")).hexdigest()
