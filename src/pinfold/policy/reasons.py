"""How reasons are made: one shape for those that a setting gives, one for those that a rule gives."""

from collections.abc import Iterable, Iterator

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.escape_text import quoted, visible
from pinfold.model.script import Command, Unknown
from pinfold.model.settings import AutoRunMode, Rule, Settings
from pinfold.model.text_positions import Origin, Span
from pinfold.policy.command_context import CommandContext
from pinfold.policy.rule_operands import RuleMatch
from pinfold.policy.rules import indexed, is_sink, may_be_told, restrictive_match

ADMINISTRATOR = "ask your administrator"


def by_setting(
    settings: Settings,
    step: StepCode,
    verdict: Verdict,
    message: str,
    key: str,
    value: object,
    remedy: str = "",
    span: Span | None = None,
) -> Reason:
    """A reason whose rule is a setting; without a remedy of its own, changing it is one."""
    return Reason(
        step,
        message,
        verdict,
        rule=f"{key} = {_toml(value)}",
        origin=settings.origin(key),
        span=span,
        remedy=remedy_for(
            settings.origin(key), remedy or ("" if verdict is Verdict.ALLOW else f"change `{key}`")
        ),
    )


def too_late(settings: Settings) -> tuple[Reason, ...]:
    """Why the answer is no where it was not ready in time."""
    given = f"{settings.answer:g}s"
    message = f"the decision took longer than {given}"
    remedy = "split the line, use fewer rules, or raise `limits.answer` in your settings"
    return (by_setting(settings, StepCode.LATE, Verdict.DENY, message, "limits.answer", given, remedy),)


def remedy_for(origin: Origin, remedy: str) -> str:
    """What a user can do about a setting or rule; nothing, if an administrator wrote it."""
    return ADMINISTRATOR if remedy and origin.layer == "managed" else remedy


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def needs_person(settings: Settings, what: str) -> Reason | None:
    """Whether a person is to see everything: by the administrator's word, or by the user's mode."""
    message, step = f"{what} needs a person's approval", StepCode.PERSON_WANTED
    if settings.admin.disabled:
        return by_setting(settings, step, Verdict.ASK, message, "admin.auto_run", "disabled")
    if settings.mode is AutoRunMode.ASK_EVERY_TIME:
        return by_setting(settings, step, Verdict.ASK, message, "mode", "ask_every_time")
    return None


def because(message: str, rule: Rule) -> str:
    """The message with the reason that the rule's author gave."""
    return f"{message}: {rule.reason}" if rule.reason else message


def by_rules(
    context: CommandContext, step: StepCode, rules: tuple[Rule, ...], verdict: Verdict
) -> Iterator[Reason]:
    """Every part that one of these rules surely speaks of, and every place that may start anything."""
    for part in context.script.commands:
        rule = _matching(context, rules, part, RuleMatch.YES)
        if rule:
            message = because(f"matches the {verdict} rule `{rule.text}`", rule)
            yield _by_rule(
                step, verdict, message, rule, part.span, _taking_back(rule, verdict, context.facts.home)
            )
    doubts = (unknown for unknown in context.script.unknowns if unknown.runs and not unknown.is_data)
    yield from (
        _by_unknown(step, verdict, unknown, rules[0]) for unknown in without_overlaps(doubts) if rules
    )


def _taking_back(rule: Rule, verdict: Verdict, home: str) -> str:
    """What takes a rule out again: a command that can be pasted, if it is in a file of the user's own."""
    origin = rule.origin
    if origin.layer != "user" or not origin.file:
        return f"edit {origin}" if origin.file else "change that rule"
    command = f"pinfold rules remove {verdict} {quoted(rule.text)}"
    is_usual = origin.file == f"{home}/.config/pinfold/settings.toml"
    return command if is_usual else f"{command} --settings {quoted(origin.file)}"


def by_doubtful_rules(context: CommandContext, step: StepCode, *lists: tuple[Rule, ...]) -> Iterator[Reason]:
    """Parts that a rule speaks of only if a word, or data, that cannot be known has the right value."""
    for part in context.script.commands:
        found = (_matching(context, rules, part, RuleMatch.MAYBE) for rules in lists)
        rule = next(filter(None, found), None)
        if rule:
            why, remedy = "part of it is unknown until it runs", "write out its options and arguments"
            if may_be_told(rule.shape, part):
                why, remedy = (
                    "it may run its arguments as a command",
                    "leave that out, or answer the question",
                )
            message = f"{why}, so the rule `{rule.text}` may match it"
            yield _by_rule(step, Verdict.ASK, message, rule, part.span, remedy)
    doubts = (unknown for unknown in context.script.unknowns if unknown.is_data)
    first = next((rules[0] for rules in lists if rules), None)
    yield from (
        _by_unknown(step, Verdict.ASK, unknown, first) for unknown in without_overlaps(doubts) if first
    )


def without_overlaps(unknowns: Iterable[Unknown]) -> Iterator[Unknown]:
    """Of several doubts about one place the first: the shell's and a program's view of `eval "$X"` differ."""
    told: list[Span] = []
    for unknown in unknowns:
        span = unknown.span
        if not any(span.start < other.end and other.start < span.end for other in told):
            told.append(span)
            yield unknown


def _by_unknown(step: StepCode, verdict: Verdict, unknown: Unknown, rule: Rule) -> Reason:
    message = f"{unknown.why}, so the rule `{rule.text}` may match it"
    return _by_rule(step, verdict, message, rule, unknown.span, "write out the command to run")


def _matching(context: CommandContext, rules: tuple[Rule, ...], part: Command, how: RuleMatch) -> Rule | None:
    for rule in indexed(rules).candidates(part):
        context.facts.deadline.require_time()
        if restrictive_match(rule.shape, part) is how:
            return rule
    return None


def _by_rule(
    step: StepCode, verdict: Verdict, message: str, rule: Rule, span: Span | None, remedy: str
) -> Reason:
    remedy = remedy_for(rule.origin, remedy)
    return Reason(step, message, verdict, rule=rule.text, origin=rule.origin, span=span, remedy=remedy)


def by_hooks(context: CommandContext, step: StepCode, verdict: Verdict) -> Iterator[Reason]:
    """What hooks with this answer say."""
    beginnings = {
        Verdict.DENY: "Command execution was blocked by a hook",
        Verdict.ASK: "a hook asks for a person's approval",
    }
    for answer in context.facts.hooks:
        if answer.verdict is verdict:
            message = f"{beginnings[verdict]}: `{answer.hook}`" + (
                f": {answer.message}" if answer.message else ""
            )
            remedy = remedy_for(answer.origin, "change that hook, or remove it from `hooks.before_command`")
            yield Reason(
                step,
                message,
                verdict,
                rule=answer.hook,
                origin=answer.origin,
                remedy=remedy,
                arguments=(answer.message,) if answer.message else (),
            )


def not_covered(context: CommandContext, step: StepCode) -> Iterator[Reason]:
    """Everything in the line that no permissive rule covers, and why."""
    for unknown in without_overlaps(context.script.unknowns):
        message = f"{unknown.why}, so no allowlist can cover it"
        yield Reason(step, message, Verdict.ASK, span=unknown.span, remedy="write out the command to run")
    for part in context.parts:
        if not context.cover(part):
            if found := context.shadowing_file(part):
                message = f"PATH finds `{part.text.split()[0]}` at {found}, which commands can write"
                remedy = "give the full path of the program you mean, or answer the question"
                yield Reason(step, message, Verdict.ASK, span=part.span, remedy=remedy, arguments=(found,))
                continue
            helpers = context.git_helpers(part)[:1]
            message, span, remedy = _lacks(part, helpers, context.is_sandboxed)
            yield Reason(step, message, Verdict.ASK, span=span, remedy=remedy, arguments=helpers)


def _lacks(part: Command, helpers: tuple[str, ...], fenced: bool) -> tuple[str, Span, str]:
    """Why a part is not covered, which place shows it, and what would help."""
    written = [r for r in part.redirections if r.writes and not is_sink(r.target)]
    otherwise = "turn the sandbox on, or answer the question" if not fenced else "answer the question"
    if helpers:
        message = f"this repository's own configuration may make git run programs: `{helpers[0]}`"
        return message, part.span, otherwise
    if part.hazards:
        hazard = part.hazards[0]
        return (
            f"no allowlist entry covers it: {hazard.why}",
            hazard.span,
            "leave that out, or answer the question",
        )
    if written:
        message = f"it writes `{written[0].target.source}`, which no command rule covers"
        return message, written[0].span, otherwise
    name = part.program or part.text
    return f"`{name}` is not on the allowlist", part.span, f"add it to `commands.allow`, or {otherwise}"


def describe_refusal(decision: Decision) -> str:
    """Why something was not done, and what may be done next, in one line."""
    reason = decision.reasons[0]
    message = visible(reason.message)
    if reason.origin and reason.origin.file:
        message = f"{message} ({visible(str(reason.origin))})"
    if decision.verdict is Verdict.DENY:
        following = "nothing was done; continue without it, or tell the person what you need it for"
    else:
        following = "a person has to allow it"
    remedy = f"; to change that: {visible(reason.remedy)}" if reason.remedy else ""
    return f"{message}{remedy}; {following}"
