"""Gemini CLI.

Facts (its hooks reference, and packages/core/src/scheduler): BeforeTool answers `decision` allow, deny or
ask with a `reason`; `hookSpecificOutput.tool_input` takes the place of the model's arguments, though the
reference says that it is laid over them: with `command` alone, `dir_path` is lost. Exit status 2
blocks with standard error as the reason; any other failure is a warning, and the call goes on. The payload
does not tell the approval mode. The dialog of an `ask` shows `systemMessage`, and not the `reason`.
"""

from collections.abc import Mapping

from msgspec import json

from pinfold.integrations.hooks.claude import input_of, reason
from pinfold.integrations.hooks.hook_call import (
    HookCall,
    HookOutcome,
    HookReply,
    Opinion,
    Payload,
    UnjudgedError,
    directory,
    optional,
    table,
    text,
)
from pinfold.integrations.hooks.tools import mcp_calls, requests_of

BEFORE, START = "BeforeTool", "SessionStart"
PROJECTS = ("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR")


def read(agent: str, payload: Payload, environ: Mapping[str, str]) -> HookCall:
    event = text(payload, "hook_event_name")
    cwd = directory(payload, environ, *PROJECTS)
    workspace = tuple(environ[name] for name in PROJECTS if environ.get(name))[:1]
    conversation = optional(payload, "session_id")
    if event != BEFORE:
        return HookCall(agent, event, "", cwd, workspace, conversation=conversation)
    tool, given = text(payload, "tool_name"), table(payload, "tool_input")
    called = table(payload, "mcp_context")
    server, name = optional(called, "server_name"), optional(called, "tool_name")
    trouble = ""
    try:
        # Where the agent tells them apart, the parts of the name need not be guessed.
        known = mcp_calls(f"mcp__{server}__{name}", server) if server and name else ()
        requests = known or requests_of(tool, given, cwd)
    except UnjudgedError as error:
        requests, trouble = (), str(error)
    return HookCall(
        agent,
        event,
        tool,
        cwd,
        workspace,
        requests,
        trouble,
        given,
        can_rewrite=True,
        conversation=conversation,
    )


def reply(call: HookCall, outcome: HookOutcome) -> HookReply:
    if call.event == START and outcome.context:
        more = {"systemMessage": reason(outcome)} if outcome.message else {}
        return HookReply(json.encode({"hookSpecificOutput": {"additionalContext": outcome.context}, **more}))
    if call.event != BEFORE or outcome.opinion is Opinion.NONE:
        return HookReply(b"{}")
    said: dict[str, object] = {"decision": str(outcome.opinion), "reason": reason(outcome)}
    if outcome.opinion is Opinion.ASK:
        said["systemMessage"] = reason(outcome)
    if (given := input_of(call, outcome)) is not None:
        said["hookSpecificOutput"] = {"tool_input": given}
    return HookReply(json.encode(said))
