"""Where an agent's own file tools may write in its own directory."""

import json
from pathlib import Path

import pytest

from pinfold.integrations.hooks import answer

OWN = {
    "claude-code": (".claude", ("plans/p.md", "projects/-p/memory/MEMORY.md", "agent-memory/a/MEMORY.md")),
    "codex": (".codex", ("memories/m.md",)),
    "gemini": (".gemini", ("tmp/p/memory/m.md", "tmp/p/session/plans/p.md")),
}
NEVER = ("settings.json", "skills/a/SKILL.md", ".credentials.json", "plans/../settings.json", "memory.md")
TOOLS = {
    "claude-code": ("PreToolUse", "Write", "file_path"),
    "codex": ("PreToolUse", "apply_patch", "command"),
    "gemini": ("BeforeTool", "write_file", "file_path"),
}


def said(agent: str, home: Path, path: Path, **more: str) -> bytes:
    event, tool, key = TOOLS[agent]
    given = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch" if key == "command" else str(path)
    cwd = home / "project"
    cwd.mkdir(parents=True, exist_ok=True)
    payload = {
        "hook_event_name": event,
        "cwd": str(cwd),
        "tool_name": tool,
        "tool_input": {key: given, "content": ""},
    }
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PINFOLD_HOOK_SERVICE": "0", **more}
    reply = answer(agent, json.dumps(payload).encode(), environ)
    assert reply.exit_code == 0, reply
    return reply.stdout


@pytest.mark.parametrize("agent", OWN)
def test_plans_and_memory_are_left_to_the_agent(agent: str, tmp_path: Path) -> None:
    directory, paths = OWN[agent]
    for path in paths:
        assert said(agent, tmp_path, tmp_path / directory / path) in (b"", b"{}")


@pytest.mark.parametrize("agent", OWN)
def test_nothing_else_is(agent: str, tmp_path: Path) -> None:
    directory, paths = OWN[agent]
    for path in NEVER:
        assert b"deny" in said(agent, tmp_path, tmp_path / directory / path), path
    for other, (place, theirs) in OWN.items():
        if other != agent:
            assert b"deny" in said(agent, tmp_path, tmp_path / place / theirs[0])
    secret = tmp_path / directory / "auth.json"
    link = tmp_path / directory / paths[0]
    link.parent.mkdir(parents=True)
    secret.write_text("")
    link.symlink_to(secret)
    assert b"deny" in said(agent, tmp_path, link)


def test_a_directory_that_a_variable_names_is_not(tmp_path: Path) -> None:
    """A project may set variables for its agent."""
    place = tmp_path / "elsewhere"
    for path in ("plans/p.md", "settings.json"):
        told = said("claude-code", tmp_path, place / path, CLAUDE_CONFIG_DIR=str(place))
        assert b"deny" in told, told
