"""A command line with the facts that the steps need, each computed once."""

from enum import IntEnum
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.decision import Widening
from pinfold.model.facts import Facts
from pinfold.model.policy import Limits, PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.script import Command, Script, Trait
from pinfold.model.settings import IfUnavailable, Rule, Settings
from pinfold.policy.operand_paths import working_directories
from pinfold.policy.rules import covering_rule, goes_by_its_name, names, writes_somewhere

# Builtins that have the same effect inside and outside the sandbox: they need no exclusion of their own.
NEUTRAL = frozenset({"cd", "true", ":"})


class _Exclusion(IntEnum):
    NO = 0
    NEUTRAL = 1
    YES = 2


class EffectivePolicy(Struct, frozen=True):
    policy: SandboxPolicy
    widening: tuple[Widening, ...]


class CommandContext:
    """One `RunCommand` as the steps see it: request, settings, facts, and what follows from them."""

    def __init__(self, request: RunCommand, settings: Settings, facts: Facts) -> None:
        self.request = request
        self.settings = settings
        self.facts = facts
        self.script: Script = facts.script
        self._helpers: dict[str, tuple[str, ...]] = {}

    @cached_property
    def effective(self) -> EffectivePolicy:
        """The user's policy with what the request narrows, and what it would widen."""
        policy, widening = self._narrowed()
        if self.request.timeout is not None:
            policy = replace(policy, limits=_within(policy.limits, self.request.timeout))
        return EffectivePolicy(policy, tuple(each for each in widening if not _is_bypass(each)))

    def _narrowed(self) -> tuple[SandboxPolicy, tuple[Widening, ...]]:
        if self.request.policy is None:
            return self.facts.policy, ()
        # Imported here: few requests have a policy of their own, and every start would pay for it.
        from pinfold.policy.widen import narrowed

        return narrowed(self.facts.policy, self.request.policy, self.settings.cap)

    @cached_property
    def asks_bypass(self) -> bool:
        """Whether the request asks to run without the sandbox: by its flag, its policy, or as `mcp-cli`."""
        wanted = self.request.policy
        by_policy = wanted is not None and wanted.type is PolicyType.INSECURE_NONE
        return self.request.disable_sandbox or by_policy or self._is_mcp_cli

    @property
    def _is_mcp_cli(self) -> bool:
        """Whether the line is `mcp-cli` and `mcp.cli` is on. As in Claude Code, it does not work in the
        sandbox."""
        programs = {part.program for part in self.script.commands}
        return self.settings.mcp.cli and programs == {"mcp-cli"}

    # The four gates, in Claude Code's order.

    @property
    def sandbox_is_on(self) -> bool:
        return self.settings.sandbox.enabled and self.effective.policy.type is not PolicyType.INSECURE_NONE

    @property
    def bypass_is_open(self) -> bool:
        return self.asks_bypass and self.settings.sandbox.allow_unsandboxed

    @property
    def is_blank(self) -> bool:
        return not self.request.command.strip() and not self.request.argv

    @cached_property
    def is_excluded(self) -> bool:
        """Whether exclusions let every part of the line run outside the sandbox."""
        parts = self.script.commands
        known = bool(parts) and not self.script.problem and not self.script.unknowns
        excluded = [self._exclusion(part) for part in parts]
        return known and all(excluded) and any(part is not _Exclusion.NEUTRAL for part in excluded)

    def _exclusion(self, part: Command) -> "_Exclusion":
        """How an exclusion applies to a part. It names a program, so it covers no redirection and no other
        write."""
        if writes_somewhere(part) or any(not hazard.option for hazard in part.hazards):
            return _Exclusion.NO
        if goes_by_its_name(part) and (part.program in NEUTRAL or Trait.TRANSPARENT in part.traits):
            return _Exclusion.NEUTRAL
        named = any(names(rule.shape, part) for rule in self.settings.sandbox.excluded_commands)
        return _Exclusion.YES if named else _Exclusion.NO

    @cached_property
    def wants_sandbox(self) -> bool:
        return self.sandbox_is_on and not self.bypass_is_open and not self.is_excluded

    @cached_property
    def is_sandboxed(self) -> bool:
        """Whether the line runs in the sandbox, if it runs."""
        if not self.wants_sandbox or self.is_blank:
            return False
        return not self.facts.sandbox_trouble or self.settings.sandbox.if_unavailable is IfUnavailable.REFUSE

    @property
    def runs_freely(self) -> bool:
        """Whether the line runs in the sandbox without a question."""
        return self.wants_sandbox and not self.facts.sandbox_trouble and self.settings.sandbox.auto_allow

    @cached_property
    def parts(self) -> tuple[Command, ...]:
        """The commands that need an approval of their own."""
        return tuple(
            part for part in self.script.commands if self.shadowing_file(part) or not _needs_no_cover(part)
        )

    def cover(self, part: Command) -> Rule | None:
        """The allow or safe rule that covers this part, if there is one."""
        if self.git_helpers(part) or self.shadowing_file(part):
            return None
        program = part.words[0].literal if part.words else None
        if program is None:
            return None
        names = dict.fromkeys((program, program.rpartition("/")[2]))
        return covering_rule(part, tuple(rule for name in names for rule in self._permissive.get(name, ())))

    @cached_property
    def _permissive(self) -> dict[str, list[Rule]]:
        """Allow and safe rules by their first word: of many rules, few are about one program."""
        rules: dict[str, list[Rule]] = {}
        for rule in (*self.settings.commands.allow, *self.settings.commands.safe):
            rules.setdefault(rule.shape.words[0], []).append(rule)
        return rules

    def shadowing_file(self, part: Command) -> str:
        """The file that PATH finds for its program, if a command may have put it there; empty if not.

        Inside the sandbox such a file does no harm. Outside it, a path in the command is judged the same way.
        """
        name = part.words[0].literal if part.words else None
        return "" if self.is_sandboxed or not name or "/" in name else self.facts.shadow(name)

    def git_helpers(self, part: Command) -> tuple[str, ...]:
        """Programs that the repository's configuration would make git run; in the sandbox the kernel confines
        them."""
        if part.program != "git" or self.is_sandboxed:
            return ()
        directories = working_directories(part, self.facts_for(part))
        if directories is None:
            return ("the configuration of an unknown directory",)
        return tuple(key for directory in directories for key in self._helpers_in(directory))

    def _helpers_in(self, directory: str) -> tuple[str, ...]:
        """The helpers of one directory, found once: the search reads the whole working tree."""
        if directory not in self._helpers:
            self.facts.deadline.require_time()
            self._helpers[directory] = self.facts.files.git_helpers(directory)
        return self._helpers[directory]

    def facts_for(self, part: Command) -> Facts:
        """The facts for one command, after other commands of the line have made links and moved files."""
        names = self._unsettled.get(id(part))
        return replace(self.facts, unsettled=names) if names else self.facts

    @cached_property
    def _unsettled(self) -> dict[int, tuple[str, ...]]:
        parts = self.script.commands
        if len(parts) < 2:
            return {}
        from pinfold.policy.operand_paths import unsettled_names  # most lines are one command

        names = unsettled_names(parts, self.facts, is_sandboxed=self.is_sandboxed)
        return dict(zip(map(id, parts), names, strict=True))


def _within(limits: Limits, timeout: float) -> Limits:
    """A call may ask for less time, never for more."""
    return replace(limits, timeout=timeout if limits.timeout is None else min(timeout, limits.timeout))


def _is_bypass(widening: Widening) -> bool:
    return widening.field == "type" and widening.value == PolicyType.INSECURE_NONE.name


def _needs_no_cover(part: Command) -> bool:
    does_nothing = not part.hazards and not writes_somewhere(part)
    is_wrapper = Trait.TRANSPARENT in part.traits and goes_by_its_name(part)
    return does_nothing and (not part.words or is_wrapper)
