"""Cursor.

Facts (cursor.com/docs/hooks, of 3.23): preToolUse may change a command (`updated_input`); it knows allow and
deny, and takes an `ask` without asking. beforeShellExecution knows allow, deny and ask, and cannot change
anything. beforeReadFile knows allow and deny alone. Keys are in snake case; others have the answer refused.
Several hooks of one event run side by side, and the strictest answer counts.

What no page says, and is seen in use: for a command preToolUse comes first, and what it made of the line is
what runs (hooks that rewrite `git status` work so: fitchmultz/pi-cursor-sdk#173, where a host that skips
preToolUse runs the line as it was). Cursor does not document which of two lines beforeShellExecution gets.

What this means for us: the first hook puts the line into the sandbox, the second asks if there is a question.
The second counts a line as sandboxed only if it is one that we made. It judges any other line as one without
a sandbox (the first hook was skipped, another hook won, Cursor sends the old line): it asks or denies more,
never less.

Facts about MCP: the payload names the server by its `url` or `command`. Newer ones also have the name that it
has in the settings (`mcp_server_name`), which a project may choose: it is not gone by.
"""

from collections.abc import Mapping

from msgspec import DecodeError, json
from msgspec.structs import replace

from pinfold.integrations.hooks.claude import input_of, reason
from pinfold.integrations.hooks.hook_call import (
    SHELL,
    HookCall,
    HookOutcome,
    HookReply,
    MalformedError,
    Opinion,
    Payload,
    UnjudgedError,
    directory,
    optional,
    table,
    text,
    texts,
)
from pinfold.integrations.hooks.tools import requests_of
from pinfold.model.request import CallTool, ReadFile, Request, RunCommand

TOOL, MCP = "preToolUse", "beforeMCPExecution"
READ, TAB_READ, START = "beforeReadFile", "beforeTabFileRead", "sessionStart"
JUDGED = frozenset([TOOL, SHELL, MCP, READ, TAB_READ])
ASKS = frozenset([SHELL, MCP])


def read(agent: str, payload: Payload, environ: Mapping[str, str]) -> HookCall:
    event = text(payload, "hook_event_name")
    workspace = texts(payload, "workspace_roots")
    cwd = optional(payload, "cwd") or (workspace[0] if workspace else "")
    call = HookCall(
        agent=agent,
        event=event,
        tool=optional(payload, "tool_name"),
        cwd=directory({"cwd": cwd}, environ, "CURSOR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
        workspace=workspace,
        can_rewrite=event == TOOL,
        can_ask=event in ASKS,
        conversation=optional(payload, "conversation_id"),
        generation=optional(payload, "generation_id"),
        model=optional(payload, "model"),
    )
    if event not in JUDGED:
        return call
    given = _input(payload)
    try:
        return replace(call, requests=_requests(call, payload, given), tool_input=given)
    except UnjudgedError as error:
        return replace(call, trouble=str(error), tool_input=given)


def _input(payload: Payload) -> Payload:
    """beforeMCPExecution has the tool's input as JSON in a text."""
    given = payload.get("tool_input")
    if not isinstance(given, str):
        return table(payload, "tool_input")
    try:
        value = json.decode(given) if given.strip() else {}
    except DecodeError:
        raise MalformedError("`tool_input` is not JSON") from None
    return value if isinstance(value, dict) else {}


def _requests(call: HookCall, payload: Payload, given: Payload) -> tuple[Request, ...]:
    match call.event:
        case "beforeShellExecution":
            return (RunCommand(text(payload, "command")),)
        case "beforeMCPExecution":
            server = optional(payload, "url", "command") or "cursor"
            return (CallTool(server, text(payload, "tool_name")),)
        case "preToolUse":
            tool = text(payload, "tool_name")
            # beforeMCPExecution judges these, and can ask.
            return () if tool.startswith("MCP:") else requests_of(tool, given, call.cwd)
        case _:
            attached = payload.get("attachments")
            more = attached if isinstance(attached, list) else []
            paths = [optional(each, "file_path", "filePath") for each in more if isinstance(each, dict)]
            return tuple(ReadFile(path) for path in (text(payload, "file_path"), *paths) if path)


def reply(call: HookCall, outcome: HookOutcome) -> HookReply:
    if call.event == START and outcome.context:
        return HookReply(json.encode({"additional_context": outcome.context}))
    if call.event not in JUDGED or (outcome.opinion is Opinion.NONE and call.event in (TOOL, *ASKS)):
        return HookReply(b"{}")
    opinion = Opinion.ALLOW if outcome.opinion is Opinion.NONE else outcome.opinion
    said: dict[str, object] = {"permission": str(opinion)}
    if opinion is not Opinion.ALLOW:
        said["user_message"] = reason(outcome)
        if call.event in (TOOL, *ASKS):
            said["agent_message"] = reason(outcome)
    if call.event == TOOL and (given := input_of(call, outcome)) is not None:
        said["updated_input"] = given
    return HookReply(json.encode(said))
