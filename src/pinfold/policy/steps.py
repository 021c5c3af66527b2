"""The steps of a decision about a command line, one function each, in the order of `decide.STEPS`.

A step looks at the case and says nothing (an empty tuple) or gives its reasons. The first step that
says something decides; none of them knows what the others say. How a reason is put into words is
`reasons`' business.
"""

from pinfold.model.decision import Reason, StepCode, Verdict, Widening
from pinfold.model.facts import Facts
from pinfold.model.script import LONGEST_LINE, SOME_NAME, Trait
from pinfold.model.settings import AutoRunMode, IfUnavailable
from pinfold.policy.command_context import Case
from pinfold.policy.operand_paths import ruinous_targets
from pinfold.policy.reasons import (
    because,
    by_doubtful_rules,
    by_hooks,
    by_rules,
    by_setting,
    needs_person,
    not_covered,
    told_once,
    too_late,
)
from pinfold.policy.rules import covering_rule

# Claude Code's own words: it calls the mode by this flag.
ROOT_MESSAGE = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"

Reasons = tuple[Reason, ...]
SILENT: Reasons = ()


# What is refused, whoever asks.


def nul(case: Case) -> Reasons:
    """No program can be given a NUL character, so a line that has one is meant for somebody's parser."""
    places = {"line": case.request.command, "working directory": case.request.cwd or ""}
    return tuple(
        Reason(
            StepCode.NUL, f"the {what} contains a NUL character", Verdict.DENY, remedy="send it without that"
        )
        for what, text in places.items()
        if "\0" in text
    )


def late(case: Case) -> Reasons:
    """An agent that is answered too late goes on without us: so a late answer is a no, in time."""
    deadline = case.facts.deadline
    return too_late(case.settings) if deadline.is_past else SILENT


def denied(case: Case) -> Reasons:
    """Deny rules of any layer, and hooks that say no. Every deny is looked for before any ask."""
    rules = case.settings.commands.deny
    return (
        *by_rules(case, StepCode.DENIED, rules, Verdict.DENY),
        *by_hooks(case, StepCode.DENIED, Verdict.DENY),
    )


def no_fence(case: Case) -> Reasons:
    """Where the fence cannot be held, by this machine or by whoever asks, nothing runs as if it were."""
    accepted = case.settings.sandbox.if_unavailable
    if not case.wants_fence or not case.facts.sandbox_trouble or accepted is IfUnavailable.RUN:
        return SILENT
    verdict = Verdict.DENY if accepted is IfUnavailable.REFUSE else Verdict.ASK
    said = f"the fence cannot be held here: {case.facts.sandbox_trouble}"
    remedy = "see `pinfold doctor`, or accept by name in `sandbox.if_unavailable` that there is none"
    return (
        by_setting(
            case.settings, StepCode.NO_FENCE, verdict, said, "sandbox.if_unavailable", str(accepted), remedy
        ),
    )


# What a person must see, whatever the rules say.


def too_long(case: Case) -> Reasons:
    """A line nobody would read is not judged by us either."""
    length = len(case.request.command)
    if length <= LONGEST_LINE:
        return SILENT
    said = f"the line has {length:,} characters; more than {LONGEST_LINE:,} are not judged"
    return (Reason(StepCode.TOO_LONG, said, Verdict.ASK, remedy="put it into a script file and run that"),)


def ruinous(case: Case) -> Reasons:
    """Deleting `/`, the home, a top-level directory, the workspace or a parent of it."""
    return tuple(
        Reason(
            StepCode.RUINOUS,
            f"`{word.source}` may delete {_told(target, case.facts)}, or much of what is in it",
            Verdict.ASK,
            span=word.span,
            remedy="name what is to be deleted more closely",
        )
        for part in case.script.commands
        if part.deletes
        for word, target in ruinous_targets(part, case.facts_for(part))
    )


def _told(target: str, facts: Facts) -> str:
    if target == facts.home:
        return "your home"
    if target in facts.roots:
        return "the workspace"
    place, _, _ = target.partition(SOME_NAME)
    return target if place == target else f"something in {place}"


def bypass(case: Case) -> Reasons:
    """Leaving the fence is a question of its own, which no command rule answers."""
    if not (case.fence_is_on and case.bypass_is_open):
        return SILENT
    said = "the request wants to run without the fence"
    remedy = "run it fenced, and ask for just the path or host it needs"
    key = "sandbox.allow_unsandboxed"
    return (by_setting(case.settings, StepCode.BYPASS, Verdict.ASK, said, key, True, remedy),)


def widening(case: Case) -> Reasons:
    """What a requested policy wants beyond the user's own, by name; a higher level is among it."""
    if not case.effective.widening:
        return SILENT
    return tuple(
        Reason(
            StepCode.WIDENING,
            f"the request wants {_wanted(wish)}{_raised(case, wish)}",
            Verdict.ASK,
            remedy="add it to your settings, or answer the question",
        )
        for wish in case.effective.widening
    )


def _raised(case: Case, wish: Widening) -> str:
    """Which level a wish leads to, where that is a higher one."""
    if wish.field not in ("type", "network_access"):
        return ""
    from pinfold.policy.level import settled_level
    from pinfold.policy.widen import with_approved

    policy = case.effective.policy
    before = settled_level(policy)
    after = settled_level(with_approved(policy, (wish,), case.settings.cap))
    return f", which is level {after:d}; your own policy is level {before:d}" if after > before else ""


def _wanted(wish: Widening) -> str:
    """A switch is called by what it opens."""
    if wish.field == "block_git_writes":
        return "leave for git to write"
    return f"{wish.field.replace('_', ' ')}: `{wish.value}`"


def changes_pinfold(case: Case) -> Reasons:
    """An agent may not change the settings or approvals that hold it."""
    said, remedy = "it would change pinfold's own settings or approvals", "run it yourself"
    return tuple(
        Reason(StepCode.CHANGES_PINFOLD, said, Verdict.ASK, span=part.span, remedy=remedy)
        for part in case.script.commands
        if Trait.CHANGES_PINFOLD in part.traits
    )


def superuser(case: Case) -> Reasons:
    """Running everything as root without a fence, unless really inside one already."""
    unheld = case.facts.is_superuser and not case.is_fenced and not case.facts.inside_sandbox
    if not (unheld and case.settings.mode is AutoRunMode.RUN_EVERYTHING):
        return SILENT
    said = f"everything is to run without a question, and {ROOT_MESSAGE}"
    remedy = "switch the fence on, or run as an ordinary user"
    return (
        by_setting(case.settings, StepCode.SUPERUSER, Verdict.ASK, said, "mode", "run_everything", remedy),
    )


def person_wanted(case: Case) -> Reasons:
    """The administrator lets nothing run without a person, or the user wants to see each command."""
    reason = needs_person(case.settings, "every command")
    return (reason,) if reason else SILENT


def asked_by_hook(case: Case) -> Reasons:
    """A hook wants a person to see it, whether or not we can read the line."""
    return tuple(by_hooks(case, StepCode.ASKED_BY_HOOK, Verdict.ASK))


# What the rules say.


def unparsed(case: Case) -> Reasons:
    """What could not be read is held by the fence, or asked about; rules cannot speak of it."""
    if not case.script.problem:
        return SILENT
    return (_unreadable(case, StepCode.UNPARSED, f"the line could not be parsed: {case.script.problem}"),)


def ask_rules(case: Case) -> Reasons:
    """Ask rules (a blocklist elsewhere), and rules that may speak of a part."""
    commands = case.settings.commands
    return (
        *by_rules(case, StepCode.ASK_RULES, commands.ask, Verdict.ASK),
        *by_doubtful_rules(case, StepCode.ASK_RULES, commands.deny, commands.ask),
    )


def nothing_to_run(case: Case) -> Reasons:
    """A line without a command is treated like one that could not be parsed."""
    if case.script.commands or case.script.unknowns:
        return SILENT
    return (_unreadable(case, StepCode.NOTHING_TO_RUN, "the line runs nothing"),)


def _unreadable(case: Case, step: StepCode, message: str) -> Reason:
    rules = case.settings.commands.ask or case.settings.commands.deny
    span, remedy = case.script.problem_span, "write the line in plain bash"
    if rules:
        said = f"{message}, so the rule `{rules[0].text}` may speak of it"
        return Reason(
            step, said, Verdict.ASK, rule=rules[0].text, origin=rules[0].origin, span=span, remedy=remedy
        )
    if case.runs_freely or _everything_may_run(case):
        held = "; it runs inside the fence" if case.is_fenced else ""
        return Reason(step, message + held, Verdict.ALLOW, span=span)
    return Reason(step, message, Verdict.ASK, span=span, remedy=remedy)


def run_everything(case: Case) -> Reasons:
    """The user wants no questions, and the administrator permits that."""
    if not _everything_may_run(case):
        return SILENT
    said = "everything runs without a question"
    return (
        by_setting(case.settings, StepCode.RUN_EVERYTHING, Verdict.ALLOW, said, "mode", "run_everything"),
    )


def _everything_may_run(case: Case) -> bool:
    admin = case.settings.admin
    permitted = not admin.enabled or admin.enable_run_everything
    return permitted and case.settings.mode is AutoRunMode.RUN_EVERYTHING


def delete_protection(case: Case) -> Reasons:
    """Deleting files asks, where the user wants that, unless an allow rule covers this very command."""
    key, step = "protect.delete_files", StepCode.DELETE_PROTECTION
    if not case.settings.protect.delete_files:
        return SILENT
    known = tuple(
        by_setting(case.settings, step, Verdict.ASK, "it deletes files", key, True, span=part.span)
        for part in case.script.commands
        if part.deletes and not covering_rule(part, case.settings.commands.allow)
    )
    return known or _unknown_outside(case, step, "it may delete files")


def elevation(case: Case) -> Reasons:
    """sudo and its kin always ask."""
    remedy = "leave it out, or run it yourself"
    fenced = "wants more rights than yours, and inside the fence it gets none"
    effect = fenced if case.is_fenced else "runs with more rights than yours"
    known = tuple(
        Reason(
            StepCode.ELEVATION,
            f"`{part.program}` {effect}",
            Verdict.ASK,
            span=part.span,
            remedy=remedy,
        )
        for part in case.script.commands
        if Trait.ELEVATES in part.traits
    )
    return known or _unknown_outside(case, StepCode.ELEVATION, "it may run with more rights than yours")


def _unknown_outside(case: Case, step: StepCode, message: str) -> Reasons:
    """Outside of the fence, what may be anything may be this."""
    if case.is_fenced:
        return SILENT
    remedy = "write out what is to be run"
    return tuple(
        Reason(step, f"{unknown.why}, and {message}", Verdict.ASK, span=unknown.span, remedy=remedy)
        for unknown in told_once(each for each in case.script.unknowns if each.runs)
    )


def unfenced_files(case: Case) -> Reasons:
    """Outside of the fence, nothing else protects dotfiles, hidden files and what lies elsewhere."""
    if case.is_fenced:
        return SILENT
    # Imported here: inside the fence, the usual case, none of it is needed.
    from pinfold.policy.unsandboxed_checks import file_protections

    return tuple(file_protections(case))


def empty_allowlist(case: Case) -> Reasons:
    """Without a fence and without an allowlist there is nothing to go by."""
    if case.is_fenced or case.settings.commands.allow:
        return SILENT
    said = "it would run outside of the fence, and your allowlist is empty"
    remedy = "switch the fence on, or add the command to the allowlist"
    key = "commands.allow"
    return (by_setting(case.settings, StepCode.EMPTY_ALLOWLIST, Verdict.ASK, said, key, [], remedy),)


def covered(case: Case) -> Reasons:
    """Every part is on the allowlist or known to be safe, and nothing is unknown."""
    if case.script.unknowns:
        return SILENT
    covers = [(part, case.cover(part)) for part in case.parts]
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
    ) or (Reason(StepCode.COVERED, "nothing in it needs an approval", Verdict.ALLOW),)


def fenced(case: Case) -> Reasons:
    """Inside the fence the kernel holds the line, so there is nothing to ask."""
    if not (case.is_fenced and case.runs_freely):
        return SILENT
    said = "it runs inside the fence"
    return (by_setting(case.settings, StepCode.FENCED, Verdict.ALLOW, said, "sandbox.auto_allow", True),)


def otherwise(case: Case) -> Reasons:
    """No rule speaks for it: a person does."""
    said = "fenced commands ask too"
    return (*not_covered(case, StepCode.OTHERWISE),) or (
        by_setting(case.settings, StepCode.OTHERWISE, Verdict.ASK, said, "sandbox.auto_allow", False),
    )
