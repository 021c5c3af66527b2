"""Judges an agent's call, and puts the decision in terms that the agent's hooks have.

A hook says "allow" to a command, which runs in a pen, to file tools in what commands have as /tmp, and to MCP
tools that the user has listed: then the agent asks its person nothing. To any other call that Pinfold allows,
it says nothing, so that the agent's own rules decide.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from pinfold.integrations.hooks import AGENTS
from pinfold.integrations.hooks.hook_call import HookCall, HookOutcome, Mode, Opinion, no_directory
from pinfold.integrations.hooks.rewrite import PLAN_POLICY, Wrapping, has_launcher, has_service, unwrapped
from pinfold.model.deadline import Deadline
from pinfold.model.decision import Decision, StepCode, Verdict, Widening
from pinfold.model.errors import ConfinementError
from pinfold.model.policy import TEMPORARY, PolicyType, SandboxPolicy
from pinfold.model.request import CallTool, ReadFile, Request, RunCommand, WriteFile
from pinfold.model.settings import TmpAccess
from pinfold.model.symlinks import real_path
from pinfold.policy.paths import is_covered
from pinfold.session.judge import AgentTurn, Judge, start_of
from pinfold.settings.sources import find_project
from pinfold.state.directory import state_directory

BARE = "this hook cannot put the command into the sandbox"
NOTHING = HookOutcome(Opinion.NONE)
BACKGROUND = ("run_in_background", "is_background", "isBackground", "fireAndForget", "detach")
"""Fields of agents' tools by which a command runs in the background."""
TMP = TEMPORARY[0]
READ_ONLY = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
ORDER = tuple(Opinion)
MOVING = frozenset(["cd", "pushd", "popd"])
"""Words by which a line may end in another directory."""
MOST = 500
"""Files and hosts of one call, 2 ms each: an agent whose hook takes too long goes on without its answer."""
MOST_REASONS = 12
"""Reasons that an answer lists for one command."""


Wanted = Callable[[], Sequence[Widening]]
"""Tells what a line wants by its words. It is asked only where a person can be asked."""


class HeldConversations(Protocol):
    """The conversations that the service holds, as far as hooks need them."""

    def judge(
        self, call: HookCall, roots: tuple[str, ...], rules: Mapping[str, object], environ: Mapping[str, str]
    ) -> Judge:
        """What judges the commands of the call's conversation; `rules` are the agent's own, as settings."""

    def offer(self, call: HookCall, line: str, cwd: str, wanted: Wanted) -> str:
        """What to ask the agent's person about a line that was denied something when it last ran, or that
        wants this by its words; empty if there is nothing. If the line is run in this turn, they have said
        yes."""

    def request(self, call: HookCall, line: str, cwd: str, words: Sequence[str]) -> str:
        """What to ask the agent's person about a line that asks for a grant, `pinfold request ...`."""

    def token_of(self, call: HookCall, line: str, cwd: str) -> str:
        """The word that is to stand in the line that was asked about; empty if no offer has one."""

    def withdraw(self, call: HookCall, line: str, cwd: str) -> None:
        """Forgets what was to be granted with a line that was asked about before: that question is over."""

    def end(self, agent: str, conversation: str) -> None: ...


def judge(call: HookCall, environ: Mapping[str, str], held: HeldConversations | None = None) -> HookOutcome:
    """What is to be done about a call. Raises `PolicyError` where the settings cannot be read."""
    if os.path.isdir(os.path.join(state_directory(environ), "tickets")):
        from pinfold.integrations.hooks.approval_tickets import forget_answered

        forget_answered(call, environ)
    if call.trouble:
        return _asked(call, HookOutcome(Opinion.ASK, f"it could not be judged: {call.trouble}"))
    requests = dict.fromkeys(call.requests)
    if len(requests) > MOST:
        return _asked(call, HookOutcome(Opinion.ASK, f"it names more than {MOST} things to be judged"))
    cwd = os.path.realpath(call.cwd)
    roots = tuple(dict.fromkeys(find_project(os.path.realpath(root)) for root in call.workspace or (cwd,)))
    is_tmp = any(TMP in request.path for request in requests if isinstance(request, ReadFile | WriteFile))
    if is_tmp and (outcome := _led_to_scratch(call, cwd, roots, environ)):
        return outcome
    return _worst(_outcomes(call, (*requests,), cwd, roots, environ, held))


def _worst(outcomes: Sequence[HookOutcome]) -> HookOutcome:
    worst = min(outcomes, key=lambda outcome: ORDER.index(outcome.opinion))
    return _asked_at_once(worst, outcomes) if worst.opinion is Opinion.ASK and len(outcomes) > 1 else worst


def _led_to_scratch(
    call: HookCall, cwd: str, roots: tuple[str, ...], environ: Mapping[str, str]
) -> HookOutcome | None:
    """What is said of a file tool's call about what commands have as /tmp; None for any other call."""
    from pinfold.integrations.hooks.agent_files import led_to_scratch, names_tmp

    if not names_tmp(call):
        return None
    judge = Judge(roots, cwd, None, {}, environ, AgentTurn(call.conversation, call.generation, call.model))
    try:
        led = led_to_scratch(call, judge, environ)
    finally:
        judge.close()
    if led is None:
        return None
    # Commands may write there, so the tool may.
    may = {"filesystem": {"write": [led.scratch]}}
    outcome = _worst(_outcomes(led.call, led.call.requests, cwd, roots, environ, None, may))
    if outcome.opinion is Opinion.NONE and (message := _leaving(led.call.requests, cwd, led.scratch)):
        return _asked(call, HookOutcome(Opinion.ASK, message, tool_input=led.call.tool_input))
    opinion = Opinion.ALLOW if outcome.opinion is Opinion.NONE else outcome.opinion
    context = f"What commands have as `{TMP}` is `{led.scratch}` for your file tools: use that path."
    return replace(outcome, opinion=opinion, tool_input=led.call.tool_input, context=context)


def _leaving(requests: Sequence[Request], cwd: str, scratch: str) -> str:
    """What is to be said of the first path that lies or leads out of the directory; empty if none does.

    The agent has rules of its own for such a path, and an allow of ours would pass over them.
    """
    from pinfold.model.escape_text import visible

    for request in requests:
        if isinstance(request, ReadFile | WriteFile):
            place = real_path(os.path.join(cwd, request.path))
            if not is_covered(place, (real_path(scratch),)):
                said = f"it leads to {visible(place)}, outside of what commands have as `{TMP}`"
                return f"{said}; use that path itself, in a call of its own"
    return ""


def _asked_at_once(first: HookOutcome, outcomes: Sequence[HookOutcome]) -> HookOutcome:
    """One yes of the agent's person allows all of the call, so the question shows all of it."""
    from pinfold.approval.question_limits import too_many, too_much_told

    messages = dict.fromkeys(outcome.message for outcome in outcomes if outcome.opinion is Opinion.ASK)
    whole = "; and ".join(messages)
    if why := too_many(len(messages)) or too_much_told(whole):
        return HookOutcome(Opinion.DENY, why)
    return replace(first, message=whole)


def _outcomes(
    call: HookCall,
    requests: tuple[Request, ...],
    cwd: str,
    roots: tuple[str, ...],
    environ: Mapping[str, str],
    held: HeldConversations | None,
    more: Mapping[str, object] | None = None,
) -> list[HookOutcome]:
    """What is said of each. The workspace is looked through once, and one deadline holds for all: an agent
    goes on without an answer that comes too late. `more` are settings that hold for this call."""
    is_command = any(isinstance(request, RunCommand) for request in requests)
    # A plan changes nothing; files that an agent writes in it (the plan) are judged as ever.
    is_plan = call.mode is Mode.PLAN and is_command
    rules: dict[str, object] = {}
    if is_command and call.agent == "claude-code":
        from pinfold.integrations.hooks.claude_rules import claude_rules

        rules = claude_rules((*roots, *map(os.path.realpath, call.workspace), cwd), environ)
    first = requests[0]
    if held and isinstance(first, RunCommand) and requests[1:] == () and call.is_of_conversation:
        judge = held.judge(call, roots, rules, environ).at(cwd)
        narrower = replace(first, policy=READ_ONLY if is_plan else None)
        return [_command(call, narrower, judge, environ, held)]
    overrides = {**rules, **({"sandbox": {"policy": PLAN_POLICY}} if is_plan else {}), **(more or {})}
    judge = Judge(
        roots, cwd, None, overrides, environ, AgentTurn(call.conversation, call.generation, call.model)
    )
    try:
        outcomes = [_judged(call, request, judge, environ) for request in requests[:1]]
        due = Deadline(judge.source.settings.answer if requests[1:] else None)
        for request in requests[1:]:
            outcomes.append(_judged(call, request, judge, environ))
            if due.is_past:
                late = f"judging all of it took longer than {due.seconds:g}s: ask in parts"
                return [*outcomes, HookOutcome(Opinion.DENY, late)]
        return outcomes
    finally:
        judge.close()


def _judged(call: HookCall, request: Request, judge: Judge, environ: Mapping[str, str]) -> HookOutcome:
    if isinstance(request, RunCommand):
        return _command(call, request, judge, environ)
    decision = judge.check(request)
    if decision.verdict is Verdict.DENY:
        if isinstance(request, WriteFile) and decision.reasons[0].step is StepCode.PROTECTED:
            from pinfold.integrations.hooks.agent_files import is_own_file

            if is_own_file(call.agent, request, judge):
                return NOTHING
        _write_down(call, request, decision, judge, environ)
    return _other(call, request, decision)


def _other(call: HookCall, request: Request, decision: Decision) -> HookOutcome:
    match decision.verdict:
        case Verdict.DENY:
            return HookOutcome(Opinion.DENY, told(decision))
        case Verdict.ASK:
            return _asked(call, HookOutcome(Opinion.ASK, told(decision)))
        case Verdict.ALLOW:
            is_listed = isinstance(request, CallTool) and decision.reasons[0].step is StepCode.MCP_ALLOW
            is_free = is_listed and call.mode is not Mode.PLAN
            return HookOutcome(Opinion.ALLOW, told(decision)) if is_free else NOTHING


def _command(
    call: HookCall,
    request: RunCommand,
    judge: Judge,
    environ: Mapping[str, str],
    held: HeldConversations | None = None,
) -> HookOutcome:
    if environ.get("PINFOLD_PEN") and judge.is_inside_sandbox:
        decision = judge.check(request)
        denied = decision.verdict is Verdict.DENY
        return (
            HookOutcome(Opinion.DENY, told(decision)) if denied else NOTHING
        )  # the agent is in a pen itself
    ours = unwrapped(request.command, AGENTS, judge.roots, call.conversation)
    agent = ours.agent if ours else call.agent
    wanted = request
    if ours is not None:
        # An agent may have written the line itself: an option in it about the sandbox is the agent's request.
        bypass = request.disable_sandbox or ours.leaves_fence
        wanted = replace(request, command=ours.line, disable_sandbox=bypass)
    start = start_of(wanted, judge.cwd)
    if held:
        held.withdraw(call, wanted.command, start)
    if not os.path.isdir(start):
        return HookOutcome(Opinion.DENY, no_directory(start))
    if "/" in judge.roots and call.can_rewrite:
        from pinfold.session.request import require_pen_or_way_out

        try:
            require_pen_or_way_out(judge.roots, judge.source.settings, wanted)
        except ConfinementError as error:
            return HookOutcome(Opinion.DENY, str(error))
    decision = judge.check(wanted, BARE if ours is None and not call.can_rewrite else None)
    if decision.verdict is Verdict.DENY:
        _write_down(call, wanted, decision, judge, environ)
        return HookOutcome(Opinion.DENY, told(decision))
    if ours is None and decision.commands and decision.commands[0].argv[0].endswith("pinfold"):
        from pinfold.integrations.hooks.rewrite import own_verb

        if outcome := own_verb(call, decision):
            return _asked(call, outcome) if outcome.opinion is Opinion.ASK else outcome
    stays = call.mode is Mode.PLAN and _only_reads(decision, judge) and _stays(decision, call.cwd)
    line = _line(call, wanted, judge, environ, stays=stays) if call.can_rewrite else None
    line = None if line == request.command else line
    if decision.verdict is Verdict.ALLOW and held and call.mode is not Mode.PLAN:
        words = decision.commands[0].argv if len(decision.commands) == 1 else ()
        is_request = words[1:2] == ("request",) and os.path.basename(words[0]) == "pinfold"
        question = ""
        if is_request:
            question = held.request(call, wanted.command, start, words[2:])
        elif call.is_asked:
            question = held.offer(call, wanted.command, start, partial(judge.foreseen, wanted, decision))
        if question:
            offered = _with_offer(call, wanted, start, judge, environ, held)
            return HookOutcome(Opinion.ASK, question, offered or line)
    if decision.verdict is Verdict.ALLOW:
        # While planning, the person sees each command that may do more than read, unless nobody can be asked.
        is_seen = call.mode is Mode.PLAN and call.can_ask and not _only_reads(decision, judge)
        opinion = Opinion.ASK if is_seen else Opinion.ALLOW
        return HookOutcome(opinion, told(decision), line)
    from pinfold.integrations.hooks.approval_tickets import leave, withdraw

    if call.mode is Mode.UNATTENDED or not call.can_ask:
        withdraw(agent, wanted.command, start, decision, environ)
        # The run asks by itself; without an answer it does not start.
        return HookOutcome(Opinion.ALLOW if line or ours else Opinion.DENY, told(decision), line)
    from pinfold.approval.question_limits import too_long, too_many, too_much_told

    where = "" if decision.sandboxed else "; it would run outside of the sandbox"
    message = told(decision) + where
    if held and decision.sandboxed:
        question = held.offer(call, wanted.command, start, partial(judge.foreseen, wanted, decision))
        if question:
            message += f"; and {question}"
            line = _with_offer(call, wanted, start, judge, environ, held) or line
    if why := too_long(wanted.command) or too_many(len(decision.widening)) or too_much_told(message):
        return HookOutcome(Opinion.DENY, f"no question can show it: {why}")
    leave(call, agent, wanted.command, start, decision, environ)
    return HookOutcome(Opinion.ASK, message, line)


def _only_reads(decision: Decision, judge: Judge) -> bool:
    """Whether a line that is allowed runs in the sandbox and consists of programs that are known to read."""
    safe = {rule.text for rule in judge.source.settings.commands.safe}
    return decision.sandboxed and all(
        reason.step is StepCode.COVERED and (not reason.rule or reason.rule in safe)
        for reason in decision.reasons
    )


def _stays(decision: Decision, cwd: str) -> bool:
    """Whether a line of programs that only read ends in the directory where it begins, as far as is seen."""
    here = (("cd", cwd), ("cd", f"{cwd}/"))
    return all(command.argv in here or not MOVING & {*command.argv} for command in decision.commands)


def _write_down(
    call: HookCall, request: Request, decision: Decision, judge: Judge, environ: Mapping[str, str]
) -> None:
    # Imported here: most calls are not refused.
    from pinfold.integrations.hooks.journal import write_refusal

    size, start = judge.source.settings.journal.size, start_of(request, judge.cwd)
    write_refusal(call, request, decision, start, judge.roots, size, environ)


def _with_offer(
    call: HookCall,
    request: RunCommand,
    start: str,
    judge: Judge,
    environ: Mapping[str, str],
    held: HeldConversations,
) -> str:
    """The line that takes what it was offered, if the person says yes; empty if it needs no word for that."""
    token = held.token_of(call, request.command, start)
    return _line(call, request, judge, environ, token) if token else ""


def _line(
    call: HookCall,
    request: RunCommand,
    judge: Judge,
    environ: Mapping[str, str],
    offer: str = "",
    *,
    stays: bool = False,
) -> str:
    wrapping = Wrapping(
        call.agent,
        judge.roots,
        conversation=call.conversation if has_service(environ) else "",
        is_plan=call.mode is Mode.PLAN,
        leaves_sandbox=request.disable_sandbox,
        is_background=any(call.tool_input.get(name) is True for name in BACKGROUND),
        offer=offer,
        stays=stays and has_launcher(),
    )
    return wrapping.around(request.command)


def _asked(call: HookCall, outcome: HookOutcome) -> HookOutcome:
    """The outcome as a question, if this agent has a person to ask and can show all of it; else a denial."""
    from pinfold.approval.question_limits import too_much_told

    if call.can_ask and call.mode is not Mode.UNATTENDED:
        why = too_much_told(outcome.message)
        return HookOutcome(Opinion.DENY, why) if why else outcome
    return HookOutcome(
        Opinion.DENY, f"{outcome.message}; a person would have to see it, and this agent asks no person here"
    )


def told(decision: Decision) -> str:
    """A decision in one line, for a person and a model."""
    from pinfold.model.escape_text import visible
    from pinfold.policy.reasons import describe_refusal

    if decision.verdict is Verdict.ALLOW:
        return visible(decision.reasons[0].message)
    others = list(dict.fromkeys(visible(reason.message) for reason in decision.reasons[1:]))
    if decision.verdict is Verdict.DENY or not others:
        return describe_refusal(decision)
    more = f"; and {len(others) - MOST_REASONS} more reasons" if len(others) > MOST_REASONS else ""
    return f"{describe_refusal(decision)}; besides: {'; '.join(others[:MOST_REASONS])}{more}"


def greet(call: HookCall, environ: Mapping[str, str]) -> HookOutcome:
    from pinfold.integrations.install.health import probe_agent
    from pinfold.policy.prompt_text import AgentInterface, summarize
    from pinfold.session.judge import AgentTurn, Judge
    from pinfold.settings.sources import find_project
    from pinfold.workspace.granted_paths import told

    cwd = os.path.realpath(call.cwd)
    roots = tuple(dict.fromkeys(find_project(os.path.realpath(root)) for root in call.workspace or (cwd,)))
    judge = Judge(roots, cwd, None, {}, environ, AgentTurn(call.conversation))
    if not os.path.isdir(cwd):
        return HookOutcome(Opinion.NONE, context=f"No command can be run here: {no_directory(cwd)}.")
    if "/" in roots:
        from pinfold.session.request import require_pen_or_way_out

        try:
            require_pen_or_way_out(roots, judge.source.settings)
        except ConfinementError as error:
            return HookOutcome(Opinion.NONE, context=f"No command can be run here: {error}.")
    report = probe_agent(call.agent, environ, tuple(dict.fromkeys((cwd, *roots))))
    trouble = "" if report is None or report.state == "ready" else f"{report.name}: {report.detail}"
    if trouble and report and report.fix:
        trouble += f"; to fix it: {report.fix}"
    policy = told(judge.source.policy, roots)
    is_kept = bool(call.conversation) and has_service(environ)
    interface = AgentInterface.HOOK if is_kept else AgentInterface.LINE
    scratch = ""
    if is_kept and judge.source.settings.filesystem.tmp is TmpAccess.PRIVATE:
        from pinfold.state.conversation_tmp import scratch_directory

        scratch = scratch_directory(call.agent, call.conversation, environ)
    context = summarize(policy, judge.source.settings, roots, interface, scratch)
    if trouble:
        context += f"\n\nTell the person, before anything else, that pinfold found this: {trouble}."
    return HookOutcome(Opinion.NONE, trouble, context=context)
