"""Whatever an agent sends: an answer in its own way, and no yes that was not one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinfold.integrations.hooks import AGENTS, answer

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(
    [
        "hook_event_name",
        "hookEventName",
        "cwd",
        "tool_name",
        "tool_input",
        "permission_mode",
        "workspace_roots",
        "command",
        "file_path",
        "mcp_server",
        "mcp_context",
        "attachments",
        "url",
        "session_id",
    ]
)
WORDS = st.sampled_from(
    [
        "PreToolUse",
        "preToolUse",
        "BeforeTool",
        "PermissionRequest",
        "beforeShellExecution",
        "beforeMCPExecution",
        "beforeReadFile",
        "SessionStart",
        "Bash",
        "Shell",
        "run_shell_command",
        "Read",
        "Write",
        "apply_patch",
        "mcp__a__b",
        "MCP:x",
        "plan",
        "/",
        "/tmp",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
EVENTS = {"cursor": "preToolUse", "gemini": "BeforeTool"}


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.dictionaries(NAMES, VALUES, max_size=8), is_call=st.booleans())
def test_any_payload_is_answered(
    agent: str, payload: dict[str, Any], is_call: bool, home: Path, environ: dict[str, str]
) -> None:
    if is_call:
        payload = {
            "hook_event_name": EVENTS.get(agent, "PreToolUse"),
            "cwd": str(home / "project"),
            **payload,
        }
    reply = answer(agent, json.dumps(payload).encode("utf-8", "surrogatepass"), environ)
    assert reply.exit_code in (0, 1, 2)
    if reply.exit_code:
        assert reply.stderr and not reply.stdout
        return
    said = json.loads(reply.stdout or b"{}")
    specific = said.get("hookSpecificOutput", {})
    changed = said.get("updated_input") or specific.get("updatedInput") or specific.get("tool_input")
    verdict = said.get("permission") or said.get("decision") or specific.get("permissionDecision")
    if verdict == "allow" and payload.get("hook_event_name") != "beforeReadFile":
        assert changed and f"run --asked-by {agent} --project " in changed["command"]


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60))
def test_any_bytes_are_answered(agent: str, data: bytes, environ: dict[str, str]) -> None:
    reply = answer(agent, data, environ)
    assert reply.exit_code == 2 and reply.stderr, os.environ.get("HOME")
