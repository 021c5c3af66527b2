"""A command line with everything that bears on it, worked out once for all steps."""

from functools import cached_property
from typing import NamedTuple

from pinfold.model.decision import Widening
from pinfold.model.facts import Facts
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.script import Command, Script, Trait
from pinfold.model.settings import IfUnavailable, Rule, Settings
from pinfold.policy.places import bases
from pinfold.policy.rules import covering_rule, names, writes_somewhere
from pinfold.policy.widen import narrowed

# Builtins that do the same inside and outside of the fence: they need no exclusion of their own.
NEUTRAL = frozenset({"cd", "true", ":"})


class Effective(NamedTuple):
    policy: SandboxPolicy
    widening: tuple[Widening, ...]


class Case:
    """One `RunCommand` before the steps."""

    def __init__(self, request: RunCommand, settings: Settings, facts: Facts) -> None:
        self.request = request
        self.settings = settings
        self.facts = facts
        self.script: Script = facts.script

    @cached_property
    def effective(self) -> Effective:
        """The user's policy with what the request narrows, and what it would widen."""
        asked_for = self.request.policy
        policy, widening = narrowed(self.facts.policy, asked_for, self.settings.cap)
        return Effective(policy, tuple(wish for wish in widening if not _is_bypass(wish)))

    @cached_property
    def asks_bypass(self) -> bool:
        """Whether the request wants to run without the fence, in either spelling."""
        asked_for = self.request.policy
        return self.request.disable_sandbox or (
            asked_for is not None and asked_for.type is PolicyType.INSECURE_NONE
        )

    # The four gates, in the seeds' order.

    @property
    def fence_is_on(self) -> bool:
        return self.settings.sandbox.enabled and self.facts.policy.type is not PolicyType.INSECURE_NONE

    @property
    def bypass_is_open(self) -> bool:
        return self.asks_bypass and self.settings.sandbox.allow_unsandboxed

    @property
    def is_blank(self) -> bool:
        return not self.request.command.strip() and not self.request.argv

    @cached_property
    def is_excluded(self) -> bool:
        """Whether an exclusion takes every part of the line out of the fence."""
        parts = [part for part in self.script.commands if part.program not in NEUTRAL]
        return (
            bool(parts)
            and not self.script.problem
            and not self.script.unknowns
            and all(self.exclusion(part) for part in parts if Trait.TRANSPARENT not in part.traits)
        )

    def exclusion(self, part: Command) -> Rule | None:
        for rule in self.settings.sandbox.excluded_commands:
            if names(rule.shape, part):
                return rule
        return None

    @cached_property
    def wants_fence(self) -> bool:
        return self.fence_is_on and not self.bypass_is_open and not self.is_excluded

    @cached_property
    def is_fenced(self) -> bool:
        """Whether the line runs inside the fence, if it runs."""
        if not self.wants_fence or self.is_blank:
            return False
        return self.facts.fence_available or self.settings.sandbox.if_unavailable is IfUnavailable.REFUSE

    @property
    def runs_freely(self) -> bool:
        """Inside the fence, with nothing to ask."""
        return self.wants_fence and self.facts.fence_available and self.settings.sandbox.auto_allow

    @cached_property
    def parts(self) -> tuple[Command, ...]:
        """The commands that need an approval of their own."""
        return tuple(part for part in self.script.commands if not _needs_no_cover(part))

    def cover(self, part: Command) -> Rule | None:
        """The allow or safe rule that covers this part, if there is one."""
        if self.git_helpers(part):
            return None
        return covering_rule(part, self.settings.commands.allow) or covering_rule(
            part, self.settings.commands.safe
        )

    def git_helpers(self, part: Command) -> tuple[str, ...]:
        """What the repository would make git run on the way; inside the fence that is the kernel's matter."""
        if part.program != "git" or self.is_fenced:
            return ()
        directories = bases(part, self.facts)
        if directories is None:
            return ("the configuration of an unknown directory",)
        return tuple(key for directory in directories for key in self.facts.files.git_helpers(directory))


def _is_bypass(wish: Widening) -> bool:
    return wish.field == "type" and wish.value == PolicyType.INSECURE_NONE.name


def _needs_no_cover(part: Command) -> bool:
    does_nothing = not part.hazards and not writes_somewhere(part)
    return does_nothing and (not part.words or Trait.TRANSPARENT in part.traits)
