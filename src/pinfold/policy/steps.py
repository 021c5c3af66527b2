"""The steps of a decision about a command line, one function each, in the order of `decide.STEPS`.

A step looks at the case and says nothing (an empty tuple) or gives its reasons. The first step that
says something decides; none of them knows what the others say. How a reason is put into words is
`reasons`' business.
"""

from pinfold.model.decision import Reason, StepCode, Verdict, Widening
from pinfold.model.facts import Facts
from pinfold.model.script import LONGEST_LINE, SOME_NAME, Trait
from pinfold.model.settings import AutoRunMode, IfUnavailable
from pinfold.policy.command_context import CommandContext
from pinfold.policy.operand_paths import ruinous_targets
from pinfold.policy.reasons import (
    because,
    by_doubtful_rules,
    by_hooks,
    by_rules,
    by_setting,
    needs_person,
    not_covered,
    too_late,
    without_overlaps,
)
from pinfold.policy.rules import covering_rule

# Claude Code's own words: it calls the mode by this flag.
ROOT_MESSAGE = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"

Reasons = tuple[Reason, ...]
SILENT: Reasons = ()


# What is denied for every caller.


def nul(context: CommandContext) -> Reasons:
    """No program can be given a NUL character, so a line that has one is meant to mislead a parser."""
    places = {"line": context.request.command, "working directory": context.request.cwd or ""}
    return tuple(
        Reason(
            StepCode.NUL,
            f"the {what} contains a NUL character",
            Verdict.DENY,
            remedy="send it without that character",
        )
        for what, text in places.items()
        if "\0" in text
    )


def late(context: CommandContext) -> Reasons:
    """An agent that is answered too late goes on without us: so a late answer is a no, in time."""
    deadline = context.facts.deadline
    return too_late(context.settings) if deadline.is_past else SILENT


def denied(context: CommandContext) -> Reasons:
    """Deny rules of any layer, and hooks that say no. Every deny is looked for before any ask."""
    rules = context.settings.commands.deny
    return (
        *by_rules(context, StepCode.DENIED, rules, Verdict.DENY),
        *by_hooks(context, StepCode.DENIED, Verdict.DENY),
    )


def no_fence(context: CommandContext) -> Reasons:
    """If this machine or the caller cannot make a sandbox, nothing runs as if there were one."""
    accepted = context.settings.sandbox.if_unavailable
    if not context.wants_sandbox or not context.facts.sandbox_trouble or accepted is IfUnavailable.RUN:
        return SILENT
    verdict = Verdict.DENY if accepted is IfUnavailable.REFUSE else Verdict.ASK
    message = f"the sandbox is not available here: {context.facts.sandbox_trouble}"
    remedy = "run `pinfold doctor`, or set `sandbox.if_unavailable` to accept running without a sandbox"
    return (
        by_setting(
            context.settings,
            StepCode.NO_FENCE,
            verdict,
            message,
            "sandbox.if_unavailable",
            str(accepted),
            remedy,
        ),
    )


# What a person must see under any rules.


def too_long(context: CommandContext) -> Reasons:
    """A line too long for a person to read is not judged by us either."""
    length = len(context.request.command)
    if length <= LONGEST_LINE:
        return SILENT
    message = f"the line has {length:,} characters; pinfold judges at most {LONGEST_LINE:,}"
    return (Reason(StepCode.TOO_LONG, message, Verdict.ASK, remedy="put it into a script file and run that"),)


def ruinous(context: CommandContext) -> Reasons:
    """Deleting `/`, the home, a top-level directory, the workspace or a parent of it."""
    return tuple(
        Reason(
            StepCode.RUINOUS,
            f"`{word.source}` may delete {_told(target, context.facts)}, or much of what is in it",
            Verdict.ASK,
            span=word.span,
            remedy="name the files to delete explicitly",
        )
        for part in context.script.commands
        if part.deletes
        for word, target in ruinous_targets(part, context.facts_for(part))
    )


def _told(target: str, facts: Facts) -> str:
    if target == facts.home:
        return "your home"
    if target in facts.roots:
        return "the workspace"
    place, _, _ = target.partition(SOME_NAME)
    return target if place == target else f"something in {place}"


def bypass(context: CommandContext) -> Reasons:
    """Leaving the sandbox is a question of its own, which no command rule answers."""
    if not (context.sandbox_is_on and context.bypass_is_open):
        return SILENT
    message = "the request asks to run without the sandbox"
    remedy = "run it in the sandbox, and ask for only the path or host it needs"
    key = "sandbox.allow_unsandboxed"
    return (by_setting(context.settings, StepCode.BYPASS, Verdict.ASK, message, key, True, remedy),)


def widening(context: CommandContext) -> Reasons:
    """What a requested policy wants beyond the user's own, by name; a higher level is among it."""
    if not context.effective.widening:
        return SILENT
    return tuple(
        Reason(
            StepCode.WIDENING,
            f"the request asks for {_wanted(each)}{_raised(context, each)}",
            Verdict.ASK,
            remedy="add it to your settings, or answer the question",
        )
        for each in context.effective.widening
    )


def _raised(context: CommandContext, widening: Widening) -> str:
    """The level that a requested addition leads to, if that is a higher one."""
    if widening.field not in ("type", "network_access"):
        return ""
    from pinfold.policy.level import settled_level
    from pinfold.policy.widen import with_approved

    policy = context.effective.policy
    before = settled_level(policy)
    after = settled_level(with_approved(policy, (widening,), context.settings.cap))
    return f", which is level {after:d}; your own policy is level {before:d}" if after > before else ""


def _wanted(widening: Widening) -> str:
    """A switch is called by what it opens."""
    if widening.field == "block_git_writes":
        return "permission to write to `.git`"
    return f"{widening.field.replace('_', ' ')}: `{widening.value}`"


def changes_pinfold(context: CommandContext) -> Reasons:
    """An agent may not change the settings or approvals that hold it."""
    message, remedy = "it would change pinfold's own settings or approvals", "run it yourself"
    return tuple(
        Reason(StepCode.CHANGES_PINFOLD, message, Verdict.ASK, span=part.span, remedy=remedy)
        for part in context.script.commands
        if Trait.CHANGES_PINFOLD in part.traits
    )


def superuser(context: CommandContext) -> Reasons:
    """Asks about everything as root without a sandbox, unless really inside one already."""
    unheld = context.facts.is_superuser and not context.is_sandboxed and not context.facts.inside_sandbox
    if not (unheld and context.settings.mode is AutoRunMode.RUN_EVERYTHING):
        return SILENT
    message = f"the mode is `run_everything`, and {ROOT_MESSAGE}"
    remedy = "turn the sandbox on, or run as an ordinary user"
    return (
        by_setting(
            context.settings, StepCode.SUPERUSER, Verdict.ASK, message, "mode", "run_everything", remedy
        ),
    )


def person_wanted(context: CommandContext) -> Reasons:
    """The administrator lets nothing run without a person, or the user wants to see each command."""
    reason = needs_person(context.settings, "every command")
    return (reason,) if reason else SILENT


def asked_by_hook(context: CommandContext) -> Reasons:
    """A hook wants a person to see it, whether or not we can read the line."""
    return tuple(by_hooks(context, StepCode.ASKED_BY_HOOK, Verdict.ASK))


# What the rules say.


def unparsed(context: CommandContext) -> Reasons:
    """A line that cannot be parsed runs in the sandbox, or is asked about; rules cannot match it."""
    if not context.script.problem:
        return SILENT
    return (
        _unreadable(context, StepCode.UNPARSED, f"the line could not be parsed: {context.script.problem}"),
    )


def ask_rules(context: CommandContext) -> Reasons:
    """Ask rules (a blocklist elsewhere), and rules that may speak of a part."""
    commands = context.settings.commands
    return (
        *by_rules(context, StepCode.ASK_RULES, commands.ask, Verdict.ASK),
        *by_doubtful_rules(context, StepCode.ASK_RULES, commands.deny, commands.ask),
    )


def nothing_to_run(context: CommandContext) -> Reasons:
    """A line without a command is treated like one that could not be parsed."""
    if context.script.commands or context.script.unknowns:
        return SILENT
    return (_unreadable(context, StepCode.NOTHING_TO_RUN, "the line runs nothing"),)


def _unreadable(context: CommandContext, step: StepCode, message: str) -> Reason:
    rules = context.settings.commands.ask or context.settings.commands.deny
    span, remedy = context.script.problem_span, "write the line in plain bash"
    if rules:
        message = f"{message}, so the rule `{rules[0].text}` may match it"
        return Reason(
            step, message, Verdict.ASK, rule=rules[0].text, origin=rules[0].origin, span=span, remedy=remedy
        )
    if context.runs_freely or _everything_may_run(context):
        held = "; it runs in the sandbox" if context.is_sandboxed else ""
        return Reason(step, message + held, Verdict.ALLOW, span=span)
    return Reason(step, message, Verdict.ASK, span=span, remedy=remedy)


def run_everything(context: CommandContext) -> Reasons:
    """The user wants no questions, and the administrator permits that."""
    if not _everything_may_run(context):
        return SILENT
    message = "everything runs without a question"
    return (
        by_setting(
            context.settings, StepCode.RUN_EVERYTHING, Verdict.ALLOW, message, "mode", "run_everything"
        ),
    )


def _everything_may_run(context: CommandContext) -> bool:
    admin = context.settings.admin
    permitted = not admin.enabled or admin.enable_run_everything
    return permitted and context.settings.mode is AutoRunMode.RUN_EVERYTHING


def delete_protection(context: CommandContext) -> Reasons:
    """Deleting files asks, where the user wants that, unless an allow rule covers this very command."""
    key, step = "protect.delete_files", StepCode.DELETE_PROTECTION
    if not context.settings.protect.delete_files:
        return SILENT
    known = tuple(
        by_setting(context.settings, step, Verdict.ASK, "it deletes files", key, True, span=part.span)
        for part in context.script.commands
        if part.deletes and not covering_rule(part, context.settings.commands.allow)
    )
    return known or _unknown_outside(context, step, "it may delete files")


def elevation(context: CommandContext) -> Reasons:
    """sudo and its kin always ask."""
    remedy = "leave it out, or run it yourself"
    fenced = "asks for more rights than yours, and gets none in the sandbox"
    effect = fenced if context.is_sandboxed else "runs with more rights than yours"
    known = tuple(
        Reason(
            StepCode.ELEVATION,
            f"`{part.program}` {effect}",
            Verdict.ASK,
            span=part.span,
            remedy=remedy,
        )
        for part in context.script.commands
        if Trait.ELEVATES in part.traits
    )
    return known or _unknown_outside(context, StepCode.ELEVATION, "it may run with more rights than yours")


def _unknown_outside(context: CommandContext, step: StepCode, message: str) -> Reasons:
    """Outside the sandbox, a command that may be anything may be this."""
    if context.is_sandboxed:
        return SILENT
    remedy = "write out the command to run"
    return tuple(
        Reason(step, f"{unknown.why}, and {message}", Verdict.ASK, span=unknown.span, remedy=remedy)
        for unknown in without_overlaps(each for each in context.script.unknowns if each.runs)
    )


def unfenced_files(context: CommandContext) -> Reasons:
    """Outside the sandbox, nothing else protects dotfiles, hidden files and paths outside the project."""
    if context.is_sandboxed:
        return SILENT
    # Imported here: in the sandbox, the usual context, none of it is needed.
    from pinfold.policy.unsandboxed_checks import file_protections

    return tuple(file_protections(context))


def empty_allowlist(context: CommandContext) -> Reasons:
    """Without a sandbox and without an allowlist there is nothing to decide by."""
    if context.is_sandboxed or context.settings.commands.allow:
        return SILENT
    message = "it would run outside the sandbox, and your allowlist is empty"
    remedy = "turn the sandbox on, or add the command to `commands.allow`"
    key = "commands.allow"
    return (by_setting(context.settings, StepCode.EMPTY_ALLOWLIST, Verdict.ASK, message, key, [], remedy),)


def covered(context: CommandContext) -> Reasons:
    """Every part is on the allowlist or known to be safe, and nothing is unknown."""
    if context.script.unknowns:
        return SILENT
    covers = [(part, context.cover(part)) for part in context.parts]
    if not all(rule for _, rule in covers):
        return SILENT
    return tuple(
        Reason(
            StepCode.COVERED,
            because(f"covered by `{rule.text}`", rule),
            Verdict.ALLOW,
            rule=rule.text,
            origin=rule.origin,
            span=part.span,
        )
        for part, rule in covers
        if rule
    ) or (Reason(StepCode.COVERED, "nothing in it needs approval", Verdict.ALLOW),)


def fenced(context: CommandContext) -> Reasons:
    """In the sandbox the kernel enforces the policy, so there is nothing to ask."""
    if not (context.is_sandboxed and context.runs_freely):
        return SILENT
    message = "it runs in the sandbox"
    return (
        by_setting(context.settings, StepCode.FENCED, Verdict.ALLOW, message, "sandbox.auto_allow", True),
    )


def otherwise(context: CommandContext) -> Reasons:
    """No rule speaks for it: a person does."""
    message = "sandboxed commands ask too"
    return (*not_covered(context, StepCode.OTHERWISE),) or (
        by_setting(context.settings, StepCode.OTHERWISE, Verdict.ASK, message, "sandbox.auto_allow", False),
    )
