"""Payloads of each agent, by its published schema, and the answers to them.

`expect` is the opinion that the answer must come to in that agent's own words; `rewritten` that the command
is run in a pen instead (`bare`: by pinfold itself, outside).
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from pinfold.integrations.hooks import AGENTS, answer, rewrite
from pinfold.integrations.hooks.claude import KEEP_LINES
from pinfold.integrations.hooks.hook_call import HookReply
from pinfold.integrations.hooks.rewrite import Wrapping, own_program, plan_rule, unwrapped

PAYLOADS = Path(__file__).parent / "payloads"
ROWS = [
    pytest.param(agent, row, id=f"{agent}: {row['about']}")
    for agent in AGENTS
    for row in json.loads((PAYLOADS / f"{agent}.json").read_text())
]
# What each agent documents that a hook may answer; anything else may have the whole answer refused.
DOCUMENTED = {
    "hookSpecificOutput": {
        "hookEventName",
        "permissionDecision",
        "permissionDecisionReason",
        "updatedInput",
        "additionalContext",
        "decision",
        "tool_input",
    },
    "decision": {"behavior", "message"},
    "cursor": {"permission", "user_message", "agent_message", "updated_input", "additional_context"},
    "gemini": {"decision", "reason", "systemMessage", "hookSpecificOutput"},
    "claude": {"hookSpecificOutput"},
}


def filled(value: Any, home: Path, agent: str) -> Any:
    project = str(home / "project")
    if isinstance(value, dict):
        return {key: filled(inner, home, agent) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, home, agent) for inner in value]
    if not isinstance(value, str):
        return value
    if value.startswith("$WRAPPED("):
        return Wrapping(agent, (project,)).around(value[9:-1])
    return value.replace("$PROJECT", project).replace("$HOME", str(home))


def opinion(agent: str, reply: HookReply) -> tuple[str, dict[str, Any] | None]:
    """The answer as its agent understands it: the opinion, and the input that it runs instead."""
    if reply.exit_code == 2:
        assert reply.stderr
        return "deny", None
    said = json.loads(reply.stdout or b"{}")
    if agent == "cursor":
        assert set(said) <= DOCUMENTED["cursor"]
        return said.get("permission", "none"), said.get("updated_input")
    if agent == "gemini":
        assert set(said) <= DOCUMENTED["gemini"]
        if said.get("decision") == "ask":
            assert said["systemMessage"] == said["reason"]  # its dialog shows this
        return said.get("decision", "none"), said.get("hookSpecificOutput", {}).get("tool_input")
    assert set(said) <= DOCUMENTED["claude"]
    specific = said.get("hookSpecificOutput", {})
    assert set(specific) <= DOCUMENTED["hookSpecificOutput"]
    if "decision" in specific:
        assert set(specific["decision"]) <= DOCUMENTED["decision"]
        return specific["decision"]["behavior"], None
    return specific.get("permissionDecision", "none"), specific.get("updatedInput")


@pytest.mark.parametrize(("agent", "row"), ROWS)
def test_answer(agent: str, row: dict[str, Any], home: Path, environ: dict[str, str]) -> None:
    payload = filled(row["payload"], home, agent)
    reply = answer(agent, json.dumps(payload).encode(), environ)
    said, changed = opinion(agent, reply)
    assert said == row["expect"]
    assert (changed is not None) == bool(row.get("rewritten"))
    if changed is None:
        return
    given = payload["tool_input"]
    if row["rewritten"] == "bare":
        assert shlex.split(changed["command"]) == [*own_program(), *shlex.split(given["command"])[1:]]
        return
    roots = (str(home / "project"),)
    bypass = given.get("dangerouslyDisableSandbox") is True
    assert unwrapped(changed["command"], AGENTS, roots) == (given["command"], agent, bypass)
    assert shlex.split(changed["command"])[-1] == given["command"]
    kept = {key: value for key, value in given.items() if key != "dangerouslyDisableSandbox"}
    assert {**changed, "command": given["command"]} == kept
    assert ("--dangerously-disable-sandbox" in changed["command"]) == (kept != given)
    assert ("--policy read-only" in changed["command"]) == (payload.get("permission_mode") == "plan")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b'{"hook_event_name": 1}',
        b'{"cwd": "/"}',
        b"[" * 100_000,
    ],
)
def test_malformed_input_is_a_no(agent: str, data: bytes, environ: dict[str, str]) -> None:
    reply = answer(agent, data, environ)
    assert (reply.exit_code, reply.stdout) == (2, b"")
    assert reply.stderr.startswith("pinfold: ")


EVENTS = {
    "claude-code": "PreToolUse",
    "cursor": "preToolUse",
    "codex": "PreToolUse",
    "gemini": "BeforeTool",
    **dict.fromkeys(("vscode", "opencode", "pi", "droid", "auggie", "qwen"), "PreToolUse"),
}
TOOLS = {
    "claude-code": "Bash",
    "cursor": "Shell",
    "codex": "Bash",
    "gemini": "run_shell_command",
    "vscode": "run_in_terminal",
    "opencode": "bash",
    "pi": "bash",
    "droid": "Execute",
    "auggie": "launch-process",
    "qwen": "run_shell_command",
}


def command(agent: str, line: object, home: Path, **more: object) -> bytes:
    payload = {
        "hook_event_name": EVENTS[agent],
        "cwd": str(home / "project"),
        "tool_name": TOOLS[agent],
        "tool_input": {"command": line},
        **more,
    }
    return json.dumps(payload).encode()


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "change",
    [{"tool_input": "ls"}, {"tool_input": ["ls"]}, {"tool_name": 1}, {"tool_name": ""}, {"cwd": "x"}],
)
def test_a_field_of_another_kind_is_a_no(
    agent: str, change: dict[str, object], home: Path, environ: dict[str, str]
) -> None:
    assert opinion(agent, answer(agent, command(agent, "ls", home, **change), environ))[0] == "deny"


@pytest.mark.parametrize("agent", AGENTS)
def test_a_command_that_is_no_text_is_never_allowed(agent: str, home: Path, environ: dict[str, str]) -> None:
    for line in (None, 1, ["ls"], {"x": 1}):
        said, _ = opinion(agent, answer(agent, command(agent, line, home), environ))
        assert said in ("ask", "deny")


@pytest.mark.parametrize("agent", AGENTS)
def test_broken_settings_are_a_no_that_says_where(agent: str, home: Path, environ: dict[str, str]) -> None:
    (home / ".config/pinfold/settings.toml").write_text("mod = 1\n")
    reply = answer(agent, command(agent, "ls", home), environ)
    assert opinion(agent, reply)[0] == "deny"
    assert b"settings.toml:1" in reply.stdout


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent not in KEEP_LINES])
@pytest.mark.parametrize(
    "line",
    [
        "echo 'a'\\''b' \"$HOME\" `id` $(id)",
        "cat <<'E'\nit's\nE\n",
        "printf '%s\\n' \\\\ ; # ' \"",
        "",
        "é ü \u200b\u202e",
        "a\tb\r\n",
        "! history !!",
        "'",
    ],
)
def test_the_line_is_kept_to_the_letter(agent: str, line: str, home: Path, environ: dict[str, str]) -> None:
    said, changed = opinion(agent, answer(agent, command(agent, line, home), environ))
    assert said in ("allow", "ask") and changed is not None
    assert shlex.split(changed["command"])[-2:] == ["-c", line]
    assert unwrapped(changed["command"], AGENTS, (str(home / "project"),)) == (line, agent, False)


def claude(line: str, home: Path, environ: dict[str, str]) -> tuple[str, dict[str, Any] | None]:
    return opinion("claude-code", answer("claude-code", command("claude-code", line, home), environ))


def test_what_looks_like_our_line_and_is_not_is_wrapped_again(home: Path, environ: dict[str, str]) -> None:
    ours = Wrapping("claude-code", (str(home / "project"),)).around("ls")
    for line in (
        ours.replace(" -c ", " --network all -c "),
        f"{ours}; id",
        f"{ours} x",
        ours.replace("--project", "--project / --project"),
        Wrapping("claude-code", ("/",)).around("ls"),
        Wrapping("claude-code", ()).around("ls"),
        Wrapping("nobody", (str(home / "project"),)).around("ls"),
    ):
        _, changed = opinion(
            "claude-code", answer("claude-code", command("claude-code", line, home), environ)
        )
        assert changed is not None and shlex.split(changed["command"])[-1] == line
    assert claude(ours, home, environ) == ("allow", None)


def test_a_plans_line_that_reads_is_one_that_a_rule_allows(
    home: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it may end in another directory, which Claude Code's shell has to enter."""
    here = home / "project"
    given = {**environ, "PINFOLD_HOOK_SERVICE": ""}

    def changed(line: str, mode: str = "plan") -> str:
        data = command("claude-code", line, home, permission_mode=mode, session_id="c")
        _, changed = opinion("claude-code", answer("claude-code", data, given))
        assert changed is not None
        wrapped: str = changed["command"]
        assert unwrapped(wrapped, AGENTS, (str(here),), "c") == (line, "claude-code", False)
        return wrapped

    for program, is_named in ((("/x/pinfold",), True), (("/x/python", "-I", "-c", "import pinfold"), False)):
        monkeypatch.setattr(rewrite, "own_program", lambda program=program: program)
        start = plan_rule("claude-code").removeprefix("Bash(").removesuffix("*)")
        for line in ("cat x | sort", f"cd {here} && ls", f"cd {here}/ && ls", "ls; git log"):
            assert changed(line).startswith(start) == is_named
        for line in (
            "cd sub && ls",
            f"cd {here}/.. && ls",
            "pushd /; ls",
            "builtin cd /; ls",
            "touch x",
            "make",
        ):
            assert "--policy read-only" in changed(line) and not changed(line).startswith(start)
        assert not changed("ls", "default").startswith(start)


@pytest.mark.parametrize("root", ["/a b", "/it's", "/a --project /", "/'", "/\n", "/-c", "/é"])
def test_any_project_can_be_named(root: str) -> None:
    for roots in ((root,), (root, "/z")):
        line = Wrapping("cursor", roots, is_plan=True, leaves_sandbox=True).around("ls 'x'")
        assert unwrapped(line, AGENTS, (*roots, "/more")) == ("ls 'x'", "cursor", True)
        assert unwrapped(line, AGENTS, ("/more",)) is None


def test_a_line_with_an_offer_is_ours_and_stays_narrow() -> None:
    line = Wrapping("claude-code", ("/a",), "c", offer="0123456789abcdef").around("ls")
    assert unwrapped(line, AGENTS, ("/a",), "c") == ("ls", "claude-code", False)
    for other in ("--network all ", "0123456789abcdef ", "--offer fedcba9876543210 "):
        assert unwrapped(line.replace("-c ls", f"{other}-c ls"), AGENTS, ("/a",), "c") is None


def test_a_line_that_another_agents_hook_made_is_known(home: Path, environ: dict[str, str]) -> None:
    """Cursor loads Claude Code's hooks, too, and either of them may have rewritten the line."""
    project = str(home / "project")
    for line, wanted in (("npm i", "allow"), ("npm publish", "ask"), ("git push", "deny")):
        payload = {
            "hook_event_name": "beforeShellExecution",
            "workspace_roots": [project, str(home / "other")],
            "command": Wrapping("claude-code", (project,)).around(line),
            "cwd": project,
        }
        assert opinion("cursor", answer("cursor", json.dumps(payload).encode(), environ))[0] == wanted


def test_the_project_is_the_agents_and_not_where_it_has_gone(home: Path, environ: dict[str, str]) -> None:
    given = {**environ, "CLAUDE_PROJECT_DIR": str(home / "project")}
    data = command("claude-code", "ls", home, cwd="/usr")
    _, changed = opinion("claude-code", answer("claude-code", data, given))
    assert changed is not None
    assert shlex.split(changed["command"])[-4:] == ["--project", str(home / "project"), "-c", "ls"]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_model_learns_of_the_sandbox_when_it_begins(
    agent: str, home: Path, environ: dict[str, str]
) -> None:
    event = "sessionStart" if agent == "cursor" else "SessionStart"
    payload = {"hook_event_name": event, "cwd": str(home / "project"), "source": "new"}
    reply = answer(agent, json.dumps(payload).encode(), environ)
    assert reply.exit_code == 0
    assert b"run in a sandbox that the kernel enforces" in reply.stdout


def test_the_whole_machine_is_no_project_of_an_agent(
    home: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not looked through for ignore files, while the agent's patience ends."""
    monkeypatch.setattr("pinfold.workspace.ignore_files.IgnoreFiles.mapping", None)
    said = answer("claude-code", command("claude-code", "ls", home, cwd="/"), environ)
    assert opinion("claude-code", said)[0] == "deny" and b"work in a directory" in said.stdout
    payload = {"hook_event_name": "SessionStart", "cwd": "/", "source": "new"}
    said = answer("claude-code", json.dumps(payload).encode(), environ)
    assert b"No command can be run here: the root of the file system" in said.stdout


@pytest.mark.parametrize("agent", AGENTS)
def test_a_directory_that_is_not_there_is_told_before_anything_is_run(
    agent: str, home: Path, environ: dict[str, str]
) -> None:
    said = answer(agent, command(agent, "ls", home, cwd=f"{home}/gone"), environ)
    assert opinion(agent, said)[0] == "deny"
    assert f"the directory {home}/gone does not exist".encode() in said.stdout + said.stderr.encode()


def test_a_model_is_promised_nothing_that_is_not_there(home: Path, environ: dict[str, str]) -> None:
    file = home / ".config/pinfold/settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    (home / "there").mkdir()
    file.write_text(f'[filesystem]\nwrite = ["{home}/there", "{home}/gone"]\n')
    payload = {"hook_event_name": "SessionStart", "cwd": str(home / "project"), "source": "new"}
    said = answer("claude-code", json.dumps(payload).encode(), environ)
    assert f"{home}/there".encode() in said.stdout and f"{home}/gone".encode() not in said.stdout


def test_a_model_is_told_of_a_directory_that_is_not_there(home: Path, environ: dict[str, str]) -> None:
    payload = {"hook_event_name": "SessionStart", "cwd": f"{home}/gone", "source": "new"}
    said = answer("claude-code", json.dumps(payload).encode(), environ)
    assert f"No command can be run here: the directory {home}/gone does not exist".encode() in said.stdout


@pytest.mark.parametrize("place", [".claude/settings.json", "project/.claude/settings.local.json"])
def test_the_rules_that_a_person_gave_the_agent_hold(place: str, home: Path, environ: dict[str, str]) -> None:
    file = home / place
    file.parent.mkdir(parents=True)
    rules = {"deny": ["Bash(curl *)"], "ask": ["Bash(make deploy)"], "allow": ["Bash(git push *)"]}
    file.write_text(json.dumps({"permissions": rules}))
    assert claude("env curl x.example", home, environ)[0] == "deny"
    assert claude("make deploy now", home, environ)[0] == "ask"
    assert claude("git push", home, environ)[0] == "deny"
    assert claude("make", home, environ)[0] == "allow"
    file.write_text('{"Bash')
    assert claude("make", home, environ)[0] == "allow"


@pytest.mark.parametrize(
    "text",
    [
        '{"permissions": {"deny": ["Bash(curl *)"]}}',
        '\ufeff{"permissions": {"deny": ["Bash(curl *)"]}}',
        '{"permissions": {"deny": ["\\u0042ash(curl *)"]}}',
        '{"permissions": {"deny": [" Bash(curl *)"]}}',
        '{"permissions": {"deny": ["Bash(curl *)"]}' + " " * 1_000_000 + "}",
    ],
)
def test_the_agents_rules_hold_where_it_was_started_however_they_are_written(
    text: str, home: Path, environ: dict[str, str]
) -> None:
    """In a part of the repository, whose settings it obeys there."""
    part = home / "project/part"
    (part / ".claude").mkdir(parents=True)
    (part / ".claude/settings.json").write_text(text)
    data = command("claude-code", "env curl x.example", home)
    for changed, given in (
        (data.replace(b"/project", b"/project/part"), environ),
        (data, {**environ, "CLAUDE_PROJECT_DIR": str(part)}),
    ):
        assert opinion("claude-code", answer("claude-code", changed, given))[0] == "deny"


def test_what_a_hook_refuses_is_in_the_journal(home: Path, environ: dict[str, str]) -> None:
    from pinfold.audit import history
    from pinfold.state.directory import journal_file

    assert claude("git push", home, environ)[0] == "deny"
    assert claude("npm test", home, environ)[0] == "allow"
    secret = {"file_path": str(home / ".ssh/id_rsa")}
    data = command("claude-code", "", home, tool_name="Read", tool_input=secret, session_id="abc")
    assert opinion("claude-code", answer("claude-code", data, environ))[0] == "deny"
    entries = [entry for entry in history.entries(journal_file(environ)) if entry.kind != "policy"]
    assert [entry.kind for entry in entries] == ["refused", "refused"]
    assert "git push" in str(entries[0]) and "id_rsa" in str(entries[1])


def test_a_journal_that_cannot_be_written_leaves_a_no_a_no(home: Path, environ: dict[str, str]) -> None:
    (home / ".local").mkdir()
    (home / ".local/state").write_text("")
    assert claude("git push", home, environ)[0] == "deny"
    assert claude("npm publish", home, environ) == ("deny", None)
