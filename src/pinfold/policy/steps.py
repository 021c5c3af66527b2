"""The steps of a decision about a command line, one function each, in the order of `decide.STEPS`.

A step looks at the case and says nothing (an empty tuple) or gives its reasons. The first step that
says something decides; none of them knows what the others say. The words of each function's
docstring are what a step is for; the table of DESIGN is their source.
"""

from collections.abc import Iterator

from pinfold.model.approval import AutoRunMode
from pinfold.model.decision import Reason, Verdict
from pinfold.model.facts import Facts
from pinfold.model.script import Command, Trait
from pinfold.model.settings import IfUnavailable, Rule, Settings
from pinfold.policy.case import Case
from pinfold.policy.places import ruinous_targets
from pinfold.policy.rules import Match, covering_rule, is_sink, restrictive_match

LONGEST_LINE = 10_000
ROOT_MESSAGE = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"

Reasons = tuple[Reason, ...]
SILENT: Reasons = ()


def nul(case: Case) -> Reasons:
    """No program can be given a NUL character, so a line that has one is meant for somebody's parser."""
    at = case.request.command.find("\0")
    if at < 0:
        return SILENT
    return (
        Reason(
            "nul",
            f"the line contains a NUL character at position {at}",
            Verdict.DENY,
            remedy="send the line without it",
        ),
    )


def denied(case: Case) -> Reasons:
    """Deny rules of any layer, and hooks that say no. Every deny is looked for before any ask."""
    return (
        *_restricted(case, "denied", case.settings.commands.deny, Verdict.DENY),
        *_hooks(case, Verdict.DENY),
    )


def no_fence(case: Case) -> Reasons:
    """Where the machine cannot hold the fence, nothing runs as if it could."""
    setting = case.settings.sandbox.if_unavailable
    if not case.wants_fence or case.facts.fence_available or setting is IfUnavailable.RUN:
        return SILENT
    return (
        Reason(
            "no_fence",
            "this machine cannot hold the fence",
            Verdict.DENY if setting is IfUnavailable.REFUSE else Verdict.ASK,
            rule=f'sandbox.if_unavailable = "{setting}"',
            origin=case.settings.origin("sandbox.if_unavailable"),
            remedy="`pinfold doctor` says what is missing",
        ),
    )


def too_long(case: Case) -> Reasons:
    """A line nobody would read is not judged by us either."""
    length = len(case.request.command)
    if length <= LONGEST_LINE:
        return SILENT
    return (
        Reason(
            "too_long",
            f"the line has {length:,} characters; more than {LONGEST_LINE:,} are not judged",
            Verdict.ASK,
            remedy="put it into a script file and run that",
        ),
    )


def ruinous(case: Case) -> Reasons:
    """Deleting `/`, the home, a top-level directory, the workspace or a parent of it."""
    return tuple(
        Reason(
            "ruinous",
            f"`{word.source}` may delete {_told(target, case.facts)}, and everything in it",
            Verdict.ASK,
            span=word.span,
            remedy="name what is to be deleted more closely",
        )
        for part in case.script.commands
        for word, target in ruinous_targets(part, case.facts)
    )


def bypass(case: Case) -> Reasons:
    """Leaving the fence is a question of its own, which no command rule answers."""
    if not (case.fence_is_on and case.bypass_is_open):
        return SILENT
    return (
        Reason(
            "bypass",
            "the request wants to run without the fence",
            Verdict.ASK,
            rule="sandbox.allow_unsandboxed = true",
            origin=case.settings.origin("sandbox.allow_unsandboxed"),
            remedy="run it fenced, and ask for just the path or host it needs",
        ),
    )


def widening(case: Case) -> Reasons:
    """What a requested policy wants beyond the user's own, by name."""
    return tuple(
        Reason(
            "widening",
            f"the request wants {wish.field.replace('_', ' ')}: `{wish.value}`",
            Verdict.ASK,
            remedy="add it to your settings, or answer the question",
        )
        for wish in case.effective.widening
    )


def changes_pinfold(case: Case) -> Reasons:
    """An agent may not change the settings or approvals that hold it."""
    return tuple(
        _about(part, "changes_pinfold", "it would change pinfold's own settings or approvals", Verdict.ASK)
        for part in case.script.commands
        if Trait.CHANGES_PINFOLD in part.traits
    )


def superuser(case: Case) -> Reasons:
    """Running everything as root without a fence, unless really inside one already."""
    unheld = case.facts.is_superuser and not case.is_fenced and not case.facts.inside_fence
    if not (unheld and case.settings.mode is AutoRunMode.RUN_EVERYTHING):
        return SILENT
    return (
        Reason(
            "superuser",
            ROOT_MESSAGE,
            Verdict.ASK,
            rule='mode = "run_everything"',
            origin=case.settings.origin("mode"),
            remedy="switch the fence on, or run as an ordinary user",
        ),
    )


def disabled_by_administrator(case: Case) -> Reasons:
    """The administrator lets nothing run without a person."""
    if not case.settings.admin.disabled:
        return SILENT
    return (
        _by_setting(
            case.settings, "disabled_by_administrator", "admin.auto_run", "disabled", "an administrator"
        ),
    )


def ask_every_time(case: Case) -> Reasons:
    """The user wants to see each command, inside the fence too."""
    if case.settings.mode is not AutoRunMode.ASK_EVERY_TIME:
        return SILENT
    return (_by_setting(case.settings, "ask_every_time", "mode", "ask_every_time", "your mode"),)


def unparsed(case: Case) -> Reasons:
    """What could not be read is held by the fence, or asked about; rules cannot speak of it."""
    if not case.script.problem:
        return SILENT
    return (_unreadable(case, "unparsed", f"the line could not be parsed: {case.script.problem}"),)


def ask_rules(case: Case) -> Reasons:
    """Ask rules (the seeds' blocklist), deny rules that may match, and hooks that want a person."""
    return (
        *_restricted(case, "ask_rules", case.settings.commands.ask, Verdict.ASK),
        *_perhaps_denied(case),
        *_hooks(case, Verdict.ASK),
    )


def nothing_to_run(case: Case) -> Reasons:
    """A line without a command is treated like one that could not be parsed."""
    if case.script.commands or case.script.unknowns:
        return SILENT
    return (_unreadable(case, "nothing_to_run", "the line runs nothing"),)


def run_everything(case: Case) -> Reasons:
    """The user wants no questions, and the administrator permits that."""
    if case.settings.mode is not AutoRunMode.RUN_EVERYTHING or not _run_everything_is_permitted(case):
        return SILENT
    return (
        Reason(
            "run_everything",
            "everything runs without a question",
            Verdict.ALLOW,
            rule='mode = "run_everything"',
            origin=case.settings.origin("mode"),
        ),
    )


def delete_protection(case: Case) -> Reasons:
    """Deleting files asks, where the user wants that, unless an allow rule covers this very command."""
    if not case.settings.protect.delete_files:
        return SILENT
    setting = "protect.delete_files"
    known = tuple(
        _about(part, "delete_protection", "it deletes files", Verdict.ASK, case.settings, setting)
        for part in case.script.commands
        if part.deletes and not covering_rule(part, case.settings.commands.allow)
    )
    return known or _unknowns_unfenced(case, "delete_protection", "it may delete files")


def elevation(case: Case) -> Reasons:
    """sudo and its kin always ask."""
    known = tuple(
        _about(part, "elevation", f"`{part.program}` runs with more rights than yours", Verdict.ASK)
        for part in case.script.commands
        if Trait.ELEVATES in part.traits
    )
    return known or _unknowns_unfenced(case, "elevation", "it may run with more rights than yours")


def unfenced_files(case: Case) -> Reasons:
    """Outside of the fence, nothing else protects dotfiles, hidden files and what lies elsewhere."""
    if case.is_fenced:
        return SILENT
    # Imported here: inside the fence, the usual case, none of it is needed.
    from pinfold.policy.protections import file_protections

    return tuple(file_protections(case))


def empty_allowlist(case: Case) -> Reasons:
    """Without a fence and without an allowlist there is nothing to go by."""
    if case.is_fenced or case.settings.commands.allow:
        return SILENT
    return (
        Reason(
            "empty_allowlist",
            "it would run outside of the fence, and your allowlist is empty",
            Verdict.ASK,
            rule="commands.allow = []",
            origin=case.settings.origin("commands.allow"),
            remedy="switch the fence on, or add the command to the allowlist",
        ),
    )


def covered(case: Case) -> Reasons:
    """Every part is on the allowlist or known to be safe, and nothing is unknown."""
    if case.script.unknowns:
        return SILENT
    covers = [(part, case.cover(part)) for part in case.parts]
    if not all(rule for _, rule in covers):
        return SILENT
    return tuple(
        _about(part, "covered", f"covered by `{rule.text}`", Verdict.ALLOW, rule=rule)
        for part, rule in covers
        if rule
    ) or (Reason("covered", "nothing in it needs an approval", Verdict.ALLOW),)


def fenced(case: Case) -> Reasons:
    """Inside the fence the kernel holds the line, so there is nothing to ask."""
    if not (case.is_fenced and case.runs_freely):
        return SILENT
    return (
        Reason(
            "fenced",
            "it runs inside the fence",
            Verdict.ALLOW,
            rule="sandbox.auto_allow = true",
            origin=case.settings.origin("sandbox.auto_allow"),
        ),
    )


def otherwise(case: Case) -> Reasons:
    """No rule speaks for it: a person does."""
    return (*_uncovered(case),) or (
        _by_setting(case.settings, "otherwise", "sandbox.auto_allow", "false", "fenced commands ask too:"),
    )


def _told(target: str, facts: Facts) -> str:
    if target == facts.home:
        return "your home"
    return "the workspace" if target in facts.roots else target


def _about(
    part: Command,
    step: str,
    message: str,
    verdict: Verdict,
    settings: Settings | None = None,
    setting: str = "",
    rule: Rule | None = None,
) -> Reason:
    return Reason(
        step,
        message if not rule or not rule.reason else f"{message}: {rule.reason}",
        verdict,
        rule=rule.text if rule else setting,
        origin=rule.origin if rule else settings.origin(setting) if settings else None,
        span=part.span,
        remedy=f"set `{setting} = false`" if setting else "",
    )


def _by_setting(settings: Settings, step: str, key: str, value: str, who: str) -> Reason:
    return Reason(
        step,
        f"{who} wants a person to see every command",
        Verdict.ASK,
        rule=f'{key} = "{value}"' if value not in ("true", "false") else f"{key} = {value}",
        origin=settings.origin(key),
        remedy=f"change `{key}`",
    )


def _restricted(case: Case, step: str, rules: tuple[Rule, ...], verdict: Verdict) -> Iterator[Reason]:
    """Every part that one of these rules surely speaks of, and every place that may start anything."""
    for part in case.script.commands:
        for rule in rules:
            if restrictive_match(rule.shape, part) is Match.YES:
                yield Reason(
                    step,
                    f"the rule `{rule.text}` speaks of it" + (f": {rule.reason}" if rule.reason else ""),
                    verdict,
                    rule=rule.text,
                    origin=rule.origin,
                    span=part.span,
                    remedy="change that rule",
                )
                break
    for unknown in case.script.unknowns:
        if unknown.runs and rules:
            yield Reason(
                step,
                f"{unknown.why}, so the rule `{rules[0].text}` may be what it runs",
                verdict,
                rule=rules[0].text,
                origin=rules[0].origin,
                span=unknown.span,
                remedy="write out what is to be run",
            )


def _perhaps_denied(case: Case) -> Iterator[Reason]:
    for part in case.script.commands:
        for rule in (*case.settings.commands.deny, *case.settings.commands.ask):
            if restrictive_match(rule.shape, part) is Match.MAYBE:
                yield Reason(
                    "ask_rules",
                    f"a word of it cannot be known, so the rule `{rule.text}` may match",
                    Verdict.ASK,
                    rule=rule.text,
                    origin=rule.origin,
                    span=part.span,
                    remedy="write out its options and operands",
                )
                break


def _hooks(case: Case, verdict: Verdict) -> Iterator[Reason]:
    for answer in case.facts.hooks:
        if answer.verdict is verdict:
            said = (
                "Command execution was blocked by a hook"
                if verdict is Verdict.DENY
                else "a hook wants a person"
            )
            yield Reason(
                "hook",
                f"{said}: `{answer.hook}`" + (f": {answer.message}" if answer.message else ""),
                verdict,
                rule=answer.hook,
                origin=answer.origin,
                remedy="ask whoever wrote the hook",
            )


def _run_everything_is_permitted(case: Case) -> bool:
    return not case.settings.admin.enabled or case.settings.admin.enable_run_everything


def _unreadable(case: Case, step: str, message: str) -> Reason:
    settings = case.settings
    by_rule = settings.commands.ask or settings.commands.deny
    everything = settings.mode is AutoRunMode.RUN_EVERYTHING and _run_everything_is_permitted(case)
    if by_rule:
        return Reason(
            step,
            f"{message}, so the rule `{by_rule[0].text}` may match",
            Verdict.ASK,
            rule=by_rule[0].text,
            origin=by_rule[0].origin,
            span=case.script.problem_span,
            remedy="write the line in plain bash",
        )
    if case.runs_freely or everything:
        why = "it runs inside the fence" if case.runs_freely else "everything runs without a question"
        return Reason(step, f"{message}; {why}", Verdict.ALLOW, span=case.script.problem_span)
    return Reason(
        step, message, Verdict.ASK, span=case.script.problem_span, remedy="write the line in plain bash"
    )


def _unknowns_unfenced(case: Case, step: str, message: str) -> Reasons:
    if case.is_fenced:
        return SILENT
    return tuple(
        Reason(
            step,
            f"{unknown.why}, and {message}",
            Verdict.ASK,
            span=unknown.span,
            remedy="write out what is to be run",
        )
        for unknown in case.script.unknowns
        if unknown.runs
    )


def _uncovered(case: Case) -> Iterator[Reason]:
    for unknown in case.script.unknowns:
        yield Reason(
            "otherwise",
            f"{unknown.why}, so no allowlist can cover it",
            Verdict.ASK,
            span=unknown.span,
            remedy="write out what is to be run",
        )
    for part in case.parts:
        if not case.cover(part):
            yield _no_cover(part, case.git_helpers(part))


def _no_cover(part: Command, helpers: tuple[str, ...]) -> Reason:
    writes = [
        redirection
        for redirection in part.redirections
        if redirection.writes and not is_sink(redirection.target)
    ]
    if helpers:
        return Reason(
            "otherwise",
            f"this repository's own configuration may make git run programs: `{helpers[0]}`",
            Verdict.ASK,
            span=part.span,
            remedy="switch the fence on, or take it out of the repository's configuration",
        )
    if part.hazards:
        return Reason(
            "otherwise",
            f"no allowlist covers it: {part.hazards[0].why}",
            Verdict.ASK,
            span=part.hazards[0].span,
            remedy="leave that out, or answer the question",
        )
    if writes:
        return Reason(
            "otherwise",
            f"it writes `{writes[0].target.source}`, which no command rule covers",
            Verdict.ASK,
            span=writes[0].span,
            remedy="switch the fence on, or answer the question",
        )
    return Reason(
        "otherwise",
        f"`{part.program or part.text}` is not on the allowlist",
        Verdict.ASK,
        span=part.span,
        remedy="add it to `commands.allow`, or switch the fence on",
    )
