"""Claude Code, and what speaks like it: Codex and VS Code.

Facts (Claude Code's hooks reference): PreToolUse answers `hookSpecificOutput.permissionDecision` allow,
deny or ask; `updatedInput` replaces the whole input, so what we do not know in it must come along; the
person's own deny and ask rules still count after an allow. PermissionRequest comes when a dialogue would be
shown: silence shows it. Exit status 2 blocks a tool and its standard error is the reason.
"""

from collections.abc import Mapping

from msgspec import json

from pinfold.integrations.hooks.hook_call import (
    HookCall,
    HookOutcome,
    HookReply,
    Mode,
    Opinion,
    Payload,
    UnjudgedError,
    directory,
    optional,
    table,
    text,
)
from pinfold.integrations.hooks.tools import COMMANDS, plain, requests_of

PRE, REQUEST, START = "PreToolUse", "PermissionRequest", "SessionStart"
MODES = {"plan": Mode.PLAN, "bypassPermissions": Mode.UNATTENDED, "dontAsk": Mode.UNATTENDED}
LONGEST = 9_000
"""Characters of a text: Claude Code cuts at 10,000."""


def read(payload: Payload, environ: Mapping[str, str]) -> HookCall:
    return read_as("claude-code", payload, environ, "CLAUDE_PROJECT_DIR")


def read_as(
    agent: str, payload: Payload, environ: Mapping[str, str], *projects: str, can_ask: bool = True
) -> HookCall:
    """The call in a payload of this shape; `projects` are variables that name what the agent works in."""
    event = text(payload, "hook_event_name", "hookEventName")
    cwd = directory(payload, environ, *projects)
    call = HookCall(
        agent=agent,
        event=event,
        tool=optional(payload, "tool_name"),
        cwd=cwd,
        workspace=tuple(environ[name] for name in projects if environ.get(name))[:1],
        can_rewrite=event == PRE,
        can_ask=can_ask,
        mode=MODES.get(optional(payload, "permission_mode"), Mode.NORMAL),
        conversation=optional(payload, "session_id", "sessionId"),
        generation=optional(payload, "prompt_id", "turn_id"),
        model=optional(payload, "model"),
    )
    return call if event not in (PRE, REQUEST) else _with_requests(call, payload)


def _with_requests(call: HookCall, payload: Payload) -> HookCall:
    from msgspec.structs import replace

    tool, given = text(payload, "tool_name"), table(payload, "tool_input")
    server = optional(table(payload, "mcp_server"), "name")
    try:
        found = requests_of(tool, given, call.cwd, server)
    except UnjudgedError as error:
        return replace(call, tool_input=given, trouble=str(error))
    return replace(call, tool_input=given, requests=found)


def reply(call: HookCall, outcome: HookOutcome) -> HookReply:
    if call.event == START:
        return _began(outcome)
    if call.event == REQUEST:
        return _request_answered(outcome)
    if call.event != PRE or outcome.opinion is Opinion.NONE:
        return HookReply()
    said: dict[str, object] = {
        "permissionDecision": str(outcome.opinion),
        "permissionDecisionReason": reason(outcome),
    }
    if (given := input_of(call, outcome)) is not None:
        said["updatedInput"] = given
    if outcome.context:
        said["additionalContext"] = outcome.context
    return _specific(said, PRE)


def _began(outcome: HookOutcome) -> HookReply:
    """The model is told the context, and the person, in so many words, what is wrong."""
    if not outcome.context:
        return HookReply()
    said: dict[str, object] = {
        "hookSpecificOutput": {"hookEventName": START, "additionalContext": outcome.context}
    }
    if outcome.message:
        said["systemMessage"] = reason(outcome)
    return HookReply(json.encode(said))


def reason(outcome: HookOutcome) -> str:
    return f"pinfold: {outcome.message or outcome.opinion}"[:LONGEST]


def input_of(call: HookCall, outcome: HookOutcome) -> Mapping[str, object] | None:
    """The whole input that the agent is to use; None for the one that it has."""
    return outcome.tool_input if outcome.command is None else changed(call, outcome.command)


def changed(call: HookCall, command: str) -> dict[str, object]:
    """The whole input, with the line that is run in place of its own."""
    kept = {**call.tool_input, "command": command}
    if plain(call.tool) in COMMANDS:
        kept.pop("dangerouslyDisableSandbox", None)  # the line itself asks for that now
    return kept


def _request_answered(outcome: HookOutcome) -> HookReply:
    """Silence shows the dialogue that was about to be shown."""
    if outcome.opinion not in (Opinion.DENY, Opinion.ALLOW):
        return HookReply()
    decision: dict[str, object] = {"behavior": str(outcome.opinion)}
    if outcome.opinion is Opinion.DENY:
        decision["message"] = reason(outcome)
    return _specific({"decision": decision}, REQUEST)


def _specific(said: Mapping[str, object], event: str) -> HookReply:
    return HookReply(json.encode({"hookSpecificOutput": {"hookEventName": event, **said}}))
