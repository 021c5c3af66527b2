"""Claude Code, and what speaks like it.

Facts (Claude Code's hooks reference): PreToolUse answers `hookSpecificOutput.permissionDecision` allow,
deny or ask; `updatedInput` replaces the whole input, so what we do not know in it must come along; the
person's own deny and ask rules still count after an allow. PermissionRequest comes when a dialogue would be
shown: silence shows it. Exit status 2 blocks a tool and its standard error is the reason.

In its mode `auto` the terminal's interface puts a hook's question, and the VS Code panel takes it for a yes
(2.1.220, anthropics/claude-code#82518). `CLAUDE_CODE_ENTRYPOINT` says which of them runs.

Facts about the others, tried where no source is named:
- Codex: see `codex`.
- VS Code (its hooks reference) and Copilot CLI (1.0.102): the answers are Claude Code's. VS Code's tools and
  arguments have names of their own, and it looks at no matcher, so that every tool comes here; it passes over
  an `updatedInput` that does not fit the tool's schema. Common fields were camelCase at first. Copilot CLI
  reads the same files, and where an event's name begins with a capital it names tools as Claude Code does.
- opencode (1.18) and pi (0.87) run plugins (`install/*.js`), which send this payload to our hook and do what
  it answers. pi's plugin puts a question in its dialog; opencode has none that a plugin could open.
- Droid (0.215): events stand at the top of `~/.factory/hooks.json`. It lays `updatedInput` over the input,
  but only beside an allow: beside an ask the line would run as it was. So the run itself asks.
- Auggie (0.36): `updatedInput` takes the place of the input; an ask is a yes (its source). It names what it
  works in by `workspace_roots`, and no directory. Its server switches hooks on, by a feature flag.
- Qwen Code (0.24): it knows no `updatedInput`. Its commands are judged as ones without a sandbox.
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
    texts,
)
from pinfold.integrations.hooks.tools import COMMANDS, plain, requests_of

PRE, REQUEST, START = "PreToolUse", "PermissionRequest", "SessionStart"
MODES = {
    "plan": Mode.PLAN,
    "spec": Mode.PLAN,
    "bypassPermissions": Mode.UNATTENDED,
    "dontAsk": Mode.UNATTENDED,
    "yolo": Mode.UNATTENDED,
}
PROJECTS = {"claude-code": "CLAUDE_PROJECT_DIR", "droid": "FACTORY_PROJECT_DIR", "qwen": "QWEN_PROJECT_DIR"}
"""Variables that name what an agent works in."""
KEEP_LINES = frozenset(["qwen"])
"""Agents whose hooks cannot change a command: it runs as the agent wrote it."""
ASK_NOBODY = frozenset(["codex", "opencode", "droid", "auggie"])
"""Agents that do not show a PreToolUse hook's question to their user."""
CURSORS = "CURSOR_VERSION"
"""A variable of hooks that Cursor runs: it loads those of Claude Code too, and takes their ask for a yes."""
LONGEST = 9_000
"""Characters of a text: Claude Code cuts at 10,000."""


def read(agent: str, payload: Payload, environ: Mapping[str, str]) -> HookCall:
    event = text(payload, "hook_event_name", "hookEventName")
    project = environ.get(PROJECTS.get(agent, ""), "")
    roots = texts(payload, "workspace_roots") or ((project,) if project else ())
    call = HookCall(
        agent=agent,
        event=event,
        tool=optional(payload, "tool_name"),
        cwd=directory({"cwd": optional(payload, "cwd") or "".join(roots[:1])}, {}),
        workspace=roots,
        can_rewrite=event == PRE and agent not in KEEP_LINES,
        can_ask=event != PRE or not (agent in ASK_NOBODY or CURSORS in environ),
        mode=_mode(agent, optional(payload, "permission_mode"), environ),
        conversation=optional(payload, "session_id", "sessionId", "conversation_id"),
        generation=optional(payload, "prompt_id", "turn_id"),
        model=optional(payload, "model"),
    )
    return call if event not in (PRE, REQUEST) else _with_requests(call, payload)


def _mode(agent: str, said: str, environ: Mapping[str, str]) -> Mode:
    if agent == "claude-code" and said == "auto" and environ.get("CLAUDE_CODE_ENTRYPOINT") != "cli":
        return Mode.UNATTENDED
    return MODES.get(said, Mode.NORMAL)


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
