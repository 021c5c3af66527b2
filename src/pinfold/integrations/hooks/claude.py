"""Claude Code, and what speaks like it: Codex and VS Code.

Facts (Claude Code's hooks reference): PreToolUse answers `hookSpecificOutput.permissionDecision` allow,
deny or ask; `updatedInput` replaces the whole input, so what we do not know in it must come along; the
person's own deny and ask rules still count after an allow. PermissionRequest comes when a dialogue would be
shown: silence shows it. Exit status 2 blocks a tool and its standard error is the reason.
"""

from collections.abc import Mapping

from msgspec import json

from pinfold.integrations.hooks.hook_call import Call, Mode, Opinion, Outcome, Reply, UnjudgedError
from pinfold.integrations.hooks.payload import Payload, directory, optional, table, text
from pinfold.integrations.hooks.tools import COMMANDS, plain, requests_of

PRE, REQUEST, START = "PreToolUse", "PermissionRequest", "SessionStart"
MODES = {"plan": Mode.PLAN, "bypassPermissions": Mode.UNATTENDED, "dontAsk": Mode.UNATTENDED}
LONGEST = 9_000
"""Characters of a text: Claude Code cuts at 10,000."""


def read(payload: Payload, environ: Mapping[str, str]) -> Call:
    return read_as("claude-code", payload, environ, "CLAUDE_PROJECT_DIR")


def read_as(
    agent: str, payload: Payload, environ: Mapping[str, str], *projects: str, can_ask: bool = True
) -> Call:
    """The call in a payload of this shape; `projects` are variables that name what the agent works in."""
    event = text(payload, "hook_event_name", "hookEventName")
    cwd = directory(payload, environ, *projects)
    call = Call(
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


def _with_requests(call: Call, payload: Payload) -> Call:
    from msgspec.structs import replace

    tool, given = text(payload, "tool_name"), table(payload, "tool_input")
    server = optional(table(payload, "mcp_server"), "name")
    try:
        found = requests_of(tool, given, call.cwd, server)
    except UnjudgedError as error:
        return replace(call, tool_input=given, trouble=str(error))
    return replace(call, tool_input=given, requests=found)


def reply(call: Call, outcome: Outcome) -> Reply:
    if call.event == START:
        return _specific({"additionalContext": outcome.context}, START) if outcome.context else Reply()
    if call.event == REQUEST:
        return _request_answered(outcome)
    if call.event != PRE or outcome.opinion is Opinion.NONE:
        return Reply()
    said: dict[str, object] = {
        "permissionDecision": str(outcome.opinion),
        "permissionDecisionReason": reason(outcome),
    }
    if outcome.command is not None:
        said["updatedInput"] = changed(call, outcome.command)
    return _specific(said, PRE)


def reason(outcome: Outcome) -> str:
    return f"pinfold: {outcome.message or outcome.opinion}"[:LONGEST]


def changed(call: Call, command: str) -> dict[str, object]:
    """The whole input, with the line that is run in place of its own."""
    kept = {**call.tool_input, "command": command}
    if plain(call.tool) in COMMANDS:
        kept.pop("dangerouslyDisableSandbox", None)  # what it asks for stands in the line now
    return kept


def _request_answered(outcome: Outcome) -> Reply:
    """Silence shows the dialogue that was about to be shown."""
    if outcome.opinion not in (Opinion.DENY, Opinion.ALLOW):
        return Reply()
    decision: dict[str, object] = {"behavior": str(outcome.opinion)}
    if outcome.opinion is Opinion.DENY:
        decision["message"] = reason(outcome)
    return _specific({"decision": decision}, REQUEST)


def _specific(said: Mapping[str, object], event: str) -> Reply:
    return Reply(json.encode({"hookSpecificOutput": {"hookEventName": event, **said}}))
