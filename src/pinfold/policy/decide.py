"""The decision: a request becomes allow, ask or deny, and says why.

Read `STEPS` from top to bottom: the first step that returns reasons decides. Every deny comes before any
ask, so an ask never ends the search for a deny. `spec/reference.py` specifies the order in a hundred plain
lines, and a test compares the two.

`decide` is pure: the clock, the disk, hooks and processes reach it only as `Facts`.
"""

from collections.abc import Callable
from itertools import takewhile

from msgspec.structs import replace

from pinfold.model.deadline import DeadlinePassed
from pinfold.model.decision import Decision, JudgedCommand, Verdict
from pinfold.model.escape_text import quoted
from pinfold.model.facts import Facts
from pinfold.model.request import CallTool, Connect, ReadFile, Request, RunCommand, UseBrowser, WriteFile
from pinfold.model.script import Command, Trait
from pinfold.model.settings import Settings
from pinfold.policy import steps
from pinfold.policy.command_context import CommandContext
from pinfold.policy.reasons import too_late
from pinfold.policy.rules import writes_somewhere

STEPS: tuple[Callable[[CommandContext], steps.Reasons], ...] = (
    # Denied for every request.
    steps.nul,
    steps.late,
    steps.denied,
    steps.no_fence,
    # A person must answer, with any rules.
    steps.too_long,
    steps.ruinous,
    steps.bypass,
    steps.widening,
    steps.changes_pinfold,
    steps.superuser,
    steps.person_wanted,
    steps.asked_by_hook,
    # The rules and the modes.
    steps.unparsed,
    steps.ask_rules,
    steps.nothing_to_run,
    steps.run_everything,
    steps.delete_protection,
    steps.elevation,
    steps.unfenced_files,
    steps.empty_allowlist,
    steps.covered,
    steps.fenced,
    steps.otherwise,
)

# Questions that an allowlist entry would have avoided.
LIFTED_BY_THE_ALLOWLIST = (steps.empty_allowlist, steps.otherwise)


def decide(request: Request, settings: Settings, facts: Facts) -> Decision:
    """The decision about a request. Total: every input gets one."""
    match request:
        case RunCommand():
            decision = _decide_command(CommandContext(request, settings, facts))
        case _:
            decision = _decide_other(request, settings, facts)
    if facts.deadline.is_past and decision.verdict is not Verdict.DENY:
        return replace(decision, verdict=Verdict.DENY, reasons=too_late(settings), candidates=())
    return decision


def _decide_other(
    request: ReadFile | WriteFile | Connect | CallTool | UseBrowser, settings: Settings, facts: Facts
) -> Decision:
    # Imported here: a command line is what a hook is asked about, and start-up time is a feature.
    from pinfold.policy import connect, files, tools

    match request:
        case ReadFile():
            return files.judge_read(request, settings, facts)
        case WriteFile():
            return files.judge_write(request, settings, facts)
        case Connect():
            return connect.judge_connect(request, settings, facts)
        case CallTool():
            return tools.judge_tool(request, settings, facts)
        case UseBrowser():
            return tools.judge_browser(request, settings, facts)


def _decide_command(context: CommandContext) -> Decision:
    try:
        step, reasons = next((step, reasons) for step in STEPS if (reasons := step(context)))
        offered = candidates(context) if step in LIFTED_BY_THE_ALLOWLIST else ()
    except DeadlinePassed:
        reasons, offered = too_late(context.settings), ()
    verdict = min((reason.verdict for reason in reasons), key=tuple(Verdict).index)
    return Decision(
        verdict=verdict,
        reasons=reasons,
        sandboxed=context.is_sandboxed,
        policy=context.effective.policy,
        widening=context.effective.widening,
        commands=tuple(_judged(part) for part in context.script.commands if part.words),
        candidates=offered,
    )


def _judged(part: Command) -> JudgedCommand:
    return JudgedCommand(
        argv=tuple(word.source if word.literal is None else word.literal for word in part.words),
        text=part.text,
        span=part.span,
        computed=tuple(index for index, word in enumerate(part.words) if word.literal is None),
    )


NEVER_SUGGESTED = frozenset(
    {Trait.INTERPRETER, Trait.ELEVATES, Trait.TRANSPARENT, Trait.REDEFINED, Trait.CHANGES_PINFOLD}
)


def candidates(context: CommandContext) -> tuple[str, ...]:
    """The allowlist entries that would cover the parts not covered yet, in the line's order.

    A candidate is offered only if adding it would really cover the part, and never if it would open an
    interpreter, a shell or more rights: a rule `python3` is a rule for everything.
    """
    if context.settings.admin.enabled:
        return ()
    offered = (
        _candidate(part, context)
        for part in context.parts
        if not (context.cover(part) or context.shadowing_file(part))
    )
    return tuple(dict.fromkeys(text for text in offered if text))


def _candidate(part: Command, context: CommandContext) -> str:
    if part.traits & NEVER_SUGGESTED or part.hazards or not part.program or writes_somewhere(part):
        return ""
    words = [word.literal or "" for word in takewhile(lambda word: word.literal is not None, part.words)]
    if part.deletes and len(words) < len(part.words):
        # What is deleted is not known, and `rm -rf` alone would be a rule for everything.
        return ""
    if part.deletes or part.program in context.settings.commands.composite:
        # The name alone says too little: it is shown with its arguments, or not at all.
        return " ".join(map(quoted, words)) if len(words) >= min(2, len(part.words)) else ""
    return " ".join(map(quoted, words[:1]))
