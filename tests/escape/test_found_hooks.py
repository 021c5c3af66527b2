"""Tool calls that a hook read otherwise than the agent does, found by attacking it."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from time import process_time

import pytest
from msgspec import json

from pinfold.integrations.hooks import answer
from pinfold.integrations.hooks.rewrite import Wrapping
from pinfold.integrations.install.agents import CLAUDE_TOOLS
from pinfold.service.local_socket import is_wanted
from pinfold.state.conversation_tmp import remove_scratch, scratch_directory

SETTINGS = '[commands]\nask = ["ship it"]\n[network]\nallow = ["fine.example"]\ndeny = ["evil.example"]\n'
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PINFOLD_PEN", "IS_SANDBOX", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = tmp_path / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


def asked(
    project: Path, agent: str, tool: str, given: Mapping[str, object], mode: str = "default", **more: str
) -> Mapping[str, object]:
    """The hook's words; none where it has nothing to say."""
    call = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given, "cwd": str(project)}
    environ = {"HOME": str(project.parent), "PATH": os.environ["PATH"], "PINFOLD_HOOK_SERVICE": "0"} | more
    reply = answer(agent, json.encode({**call, "permission_mode": mode, "session_id": "s"}), environ)
    assert reply.exit_code == 0, reply
    said: Mapping[str, object] = json.decode(reply.stdout)["hookSpecificOutput"] if reply.stdout else {}
    return said


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/",
        # A browser ends the host at the backslash, urlsplit at the `@`.
        "https://evil.example\\@fine.example/",
        # It leaves out what stands between these.
        "https://fine.example\n.evil.example/",
        "https://fine.example\t.evil.example/",
        # It needs no slashes, and takes more than two.
        "https:evil.example",
        "https:/evil.example/",
        "https:///evil.example/",
        "https:\\\\evil.example/",
    ],
)
def test_an_address_is_read_as_the_agent_reads_it(url: str, project: Path) -> None:
    given = {"url": url, "prompt": "compare it with https://fine.example/"}
    assert asked(project, "claude-code", "WebFetch", given)["permissionDecision"] in ("ask", "deny")


def test_a_plain_address_is_no_question(project: Path) -> None:
    given = {"url": "https://fine.example:443/a?b=c#d", "prompt": "what does it say?"}
    assert asked(project, "claude-code", "WebFetch", given) == {}


@pytest.mark.parametrize("key", ["command", "patch", "input"])
def test_every_patch_of_a_call_counts(key: str, project: Path) -> None:
    for other in ("command", "patch", "input"):
        given = {other: PATCH.format("fine"), key: PATCH.format("/etc/evil")}
        assert asked(project, "vscode", "apply_patch", given)["permissionDecision"] == "ask"


def test_a_line_that_an_agent_wrapped_itself_stays_in_its_plan(project: Path) -> None:
    own, ours = (
        Wrapping("codex", (str(project),), is_plan=is_plan).around("touch x") for is_plan in (False, True)
    )
    said = asked(project, "codex", "Bash", {"command": own}, "plan")
    assert said["updatedInput"] == {"command": ours}
    assert asked(project, "codex", "Bash", {"command": ours}, "plan") == {}


def test_a_line_that_an_agent_wrapped_itself_does_not_leave_the_fence_unseen(project: Path) -> None:
    line = Wrapping("claude-code", (str(project),), leaves_sandbox=True).around("touch x")
    assert asked(project, "claude-code", "Bash", {"command": line})["permissionDecision"] == "ask"


@pytest.mark.parametrize("mode", ["bypassPermissions", "dontAsk"])
def test_a_no_does_not_become_a_yes_where_nobody_is_asked(mode: str, project: Path) -> None:
    # The first is refused by the person, of which no hook hears.
    asked(project, "claude-code", "Bash", {"command": "ship it"})
    tickets = project.parent / ".local/state/pinfold/tickets"
    assert len(list(tickets.iterdir())) == 1
    said = asked(project, "claude-code", "Bash", {"command": "ship it"}, mode)
    assert said["permissionDecision"] == "allow" and "pinfold" in str(said["updatedInput"])
    assert not list(tickets.iterdir())


def test_a_question_that_the_agent_takes_for_a_yes_is_not_put(project: Path) -> None:
    """Claude Code's panel in VS Code does so in the mode `auto`; its terminal asks."""
    outside = {"command": "ls", "dangerouslyDisableSandbox": True}
    for entry, verdict in (("cli", "ask"), ("claude-vscode", "allow"), ("", "allow")):
        variables = {"CLAUDE_CODE_ENTRYPOINT": entry}
        said = asked(project, "claude-code", "Bash", outside, "auto", **variables)
        assert said["permissionDecision"] == verdict
        # The run asks by itself, and without an answer it does not start.
        assert "--dangerously-disable-sandbox" in str(said["updatedInput"])
        assert (project.parent / ".local/state/pinfold/tickets").is_dir() == (verdict == "ask")
        shutil.rmtree(project.parent / ".local/state/pinfold/tickets", ignore_errors=True)
        given = {"file_path": f"{project}/.git/config"}
        said = asked(project, "claude-code", "Write", given, "auto", **variables)
        assert said["permissionDecision"] == ("ask" if entry == "cli" else "deny")


def test_cursor_takes_no_question_of_claude_codes_hook_for_a_yes(project: Path) -> None:
    outside = {"command": "ls", "dangerouslyDisableSandbox": True}
    said = asked(project, "claude-code", "Bash", outside, CURSOR_VERSION="3.23")
    assert said["permissionDecision"] == "allow" and "--asked-by" in str(
        said["updatedInput"]
    )  # it asks itself
    assert not (project.parent / ".local/state/pinfold/tickets").exists()
    given = {"file_path": f"{project}/.git/config"}
    said = asked(project, "claude-code", "Write", given, CURSOR_VERSION="3.23")
    assert said["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    ("agent", "tool", "given", "verdict"),
    [
        # A search reads all that lies below, whatever its path is called.
        ("claude-code", "Grep", {"pattern": "KEY", "path": "~"}, "ask"),
        ("claude-code", "Grep", {"pattern": "KEY", "path": "HOME"}, "ask"),
        ("claude-code", "Grep", {"pattern": "KEY", "path": ".."}, "ask"),
        ("claude-code", "Grep", {"pattern": "KEY", "path": "/"}, "ask"),
        ("gemini", "search_file_content", {"pattern": "KEY", "path": "~"}, "ask"),
        ("gemini", "read_many_files", {"paths": ["HOME/**/*"]}, "ask"),
        # So does a pattern that leads elsewhere.
        ("claude-code", "Glob", {"pattern": "HOME/**/id_*"}, "ask"),
        ("claude-code", "Glob", {"pattern": "~/**"}, "ask"),
        ("claude-code", "Glob", {"pattern": "../**/id_*"}, "ask"),
        ("claude-code", "Glob", {"pattern": "/**"}, "ask"),
        ("claude-code", "Glob", {"pattern": "~/.ssh/*"}, "deny"),
        ("claude-code", "Glob", {"pattern": "**", "path": "~/.ssh"}, "deny"),
        # What stays in the project, and in one file, is not asked about.
        ("claude-code", "Grep", {"pattern": "KEY"}, ""),
        ("claude-code", "Grep", {"pattern": "/etc/.*", "path": "HOME/project"}, ""),
        ("claude-code", "Glob", {"pattern": "**/*.py"}, ""),
        ("claude-code", "Glob", {"pattern": "HOME/project/**/*.py"}, ""),
        ("claude-code", "Read", {"file_path": "HOME/notes.txt"}, ""),
    ],
)
def test_a_search_is_judged_by_what_lies_below(
    project: Path, agent: str, tool: str, given: dict[str, object], verdict: str
) -> None:
    (project.parent / ".ssh").mkdir()
    text = json.encode(given).decode().replace("HOME", str(project.parent))
    if agent == "gemini":
        call = {"hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": json.decode(text)}
        environ = {"HOME": str(project.parent), "PATH": os.environ["PATH"]}
        reply = answer(agent, json.encode({**call, "cwd": str(project), "session_id": "s"}), environ)
        assert json.decode(reply.stdout).get("decision", "") == verdict
        return
    said = asked(project, agent, tool, json.decode(text))
    assert said.get("permissionDecision", "") == verdict, said


@pytest.mark.parametrize(
    "path",
    [
        # Agents trim, each what its language takes for a blank.
        " {home}/.ssh/key", "\n~/.ssh/key\t", "\ufeff{home}/.ssh/key", "\x85{home}/.ssh/key",
        # Some know URLs, and what is written by numbers in them; for others that is a name like any other.
        "file://{home}/%2essh/key", "file://localhost{home}/.ssh/key", "file://key", " file://key",
        # Names with blanks in them, of links that a command may have made.
        "  blank", "blank\x1f", " blank\x1f", "blank\x85", "form\ffeed", "separated\u2028name",
    ],
)  # fmt: skip
def test_a_path_is_read_in_each_way_that_an_agent_may_read_it(path: str, project: Path) -> None:
    secrets = project.parent / ".ssh"
    secrets.mkdir()
    (project / "file:").symlink_to(secrets)
    for name in ("  blank", "blank\x1f", "blank\x85", "form\ffeed", "separated\u2028name"):
        (project / name).symlink_to(secrets / "key")
    named = path.format(home=project.parent)
    assert asked(project, "claude-code", "Read", {"file_path": named})["permissionDecision"] == "deny"
    if "\n" not in named:
        patch = {"input": PATCH.format(named)}
        assert asked(project, "vscode", "apply_patch", patch)["permissionDecision"] in ("ask", "deny")


def test_a_plain_path_is_no_question(project: Path) -> None:
    for path in ("a b", "file://{project}/a%20b", " a\n"):
        given = {"file_path": path.format(project=project)}
        assert asked(project, "claude-code", "Read", given) == {}


def test_a_search_does_not_look_past_an_ignore_file(project: Path) -> None:
    (project / ".pinfoldignore").write_text("secrets.json\n")
    said = asked(project, "claude-code", "Grep", {"pattern": "KEY"})
    assert said["permissionDecision"] == "ask" and "in the sandbox" in str(said["permissionDecisionReason"])


@pytest.mark.parametrize(
    ("agent", "tool", "given"),
    [
        ("claude-code", "Edit", {"files": [*(f"f{number}" for number in range(20_000)), ".git/hooks/x"]}),
        ("claude-code", "WebFetch", {"url": "https://fine.example/", "prompt": " ".join(
            f"https://{number}.fine.example/" for number in range(20_000)
        )}),
        ("codex", "apply_patch", {"input": "".join(f"*** Add File: {n}\n" for n in range(20_000))}),
    ],
)  # fmt: skip
def test_a_hook_is_not_kept_until_its_agent_goes_on_without_it(
    agent: str, tool: str, given: Mapping[str, object], project: Path
) -> None:
    start = process_time()
    assert asked(project, agent, tool, given)["permissionDecision"] in ("ask", "deny")
    assert process_time() - start < 5


def test_what_is_named_twice_is_judged_once(project: Path) -> None:
    assert asked(project, "claude-code", "Edit", {"files": ["fine"] * 20_000}) == {}
    said = asked(project, "claude-code", "Edit", {"files": [*["fine"] * 20_000, ".git/hooks/x"]})
    assert said["permissionDecision"] == "ask"


def test_what_a_monitor_runs_is_a_command(project: Path) -> None:
    given = {"command": "tail -f log", "description": "the log", "timeout_ms": 1000, "persistent": False}
    said = asked(project, "claude-code", "Monitor", given)
    line = Wrapping("claude-code", (str(project),)).around("tail -f log")
    assert said["permissionDecision"] == "allow" and said["updatedInput"] == {**given, "command": line}
    assert asked(project, "claude-code", "Monitor", {"command": "ship it"})["permissionDecision"] == "ask"
    denied = {"ws": {"url": "wss://evil.example/feed"}}
    assert asked(project, "claude-code", "Monitor", denied)["permissionDecision"] == "deny"
    assert asked(project, "claude-code", "Monitor", {"ws": {"url": "wss://fine.example/feed"}}) == {}
    odds: list[dict[str, object]] = [
        {**denied, "command": "x"},
        {"ws": "wss://fine.example/"},
        {"ws": {}},
        {},
    ]
    for odd in odds:
        assert asked(project, "claude-code", "Monitor", odd)["permissionDecision"] == "ask"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("create_and_run_task", {"task": {"label": "x", "type": "shell", "command": "touch x"}}),
        ("send_to_terminal", {"id": "1", "command": "touch x"}),
        ("run_vscode_command", {"commandId": "workbench.action.terminal.sendSequence"}),
        ("run_notebook_cell", {"filePath": "x.ipynb", "cellId": "1"}),
    ],
)
def test_what_runs_outside_of_the_fence_is_asked_about(
    tool: str, given: Mapping[str, object], project: Path
) -> None:
    assert asked(project, "vscode", tool, given)["permissionDecision"] == "ask"


@pytest.mark.parametrize("tool", ["Artifact", "SendUserFile", "LSP"])
def test_a_tool_that_passes_a_file_on_reads_it(tool: str, project: Path) -> None:
    for key in ("file_path", "filePath", "path", "files"):
        secret = str(project.parent / ".ssh/key")
        given = {key: [secret] if key == "files" else secret}
        assert asked(project, "claude-code", tool, given)["permissionDecision"] == "deny"
    assert asked(project, "claude-code", tool, {"file_path": str(project / "page.html")}) == {}


def test_every_tool_of_claude_codes_that_is_judged_is_told_to_the_hook() -> None:
    told = ("Monitor", "Artifact", "SendUserFile", "LSP", "Bash", "Write", "WebFetch", "mcp__a__b")
    assert all(re.search(CLAUDE_TOOLS, name) for name in told)


@pytest.mark.parametrize(
    "url", ["file://{}", "file:{}", "FILE://localhost{}", "file:///{}", "file://{}?x", "file:///..{}"]
)
@pytest.mark.parametrize("name", [".ssh", "%2essh", ".s%73h", "project/%2E%2e/.ssh"])
def test_a_files_address_is_read_as_the_agent_reads_it(url: str, name: str, project: Path) -> None:
    given = {"urls": [url.format(f"{project.parent}/{name}/key")], "query": "what does it say?"}
    assert asked(project, "vscode", "fetch_webpage", given)["permissionDecision"] == "deny"
    bare = {"url": f"file:{str(project.parent)[1:]}/{name}/key"}
    assert asked(project, "vscode", "open_simple_browser", bare)["permissionDecision"] == "deny"


@pytest.mark.parametrize("agent", ["cursor", "claude-code", "vscode"])
@pytest.mark.parametrize("roots", [(), ("other",)])
def test_a_line_that_leaves_the_fence_is_asked_about_whoever_made_it(
    agent: str, roots: tuple[str, ...], project: Path
) -> None:
    """Cursor runs lines that the hooks of others have made, and a line may be for one project of several."""
    payload = {
        "hook_event_name": "beforeShellExecution",
        "command": Wrapping(agent, (str(project),), leaves_sandbox=True).around("touch x"),
        "cwd": str(project),
        "workspace_roots": [str(project), *(str(project.parent / name) for name in roots)],
    }
    environ = {"HOME": str(project.parent), "PATH": os.environ["PATH"]}
    assert json.decode(answer("cursor", json.encode(payload), environ).stdout)["permission"] == "ask"


@pytest.mark.parametrize(
    "wanted",
    [
        'mode = "ask_every_time"',
        '[commands]\nask = ["pinfold"]',
        '[[rule]]\ndecision = "ask"\ncommand = "pinfold"',
    ],
)
def test_a_look_at_the_fence_is_seen_by_who_wants_to_see_it(wanted: str, project: Path) -> None:
    assert (
        asked(project, "claude-code", "Bash", {"command": "pinfold status"})["permissionDecision"] == "allow"
    )
    (project.parent / ".config/pinfold/settings.toml").write_text(wanted)
    for line in ("pinfold status", "pinfold settings show"):
        assert asked(project, "claude-code", "Bash", {"command": line})["permissionDecision"] == "ask"


def test_which_of_several_directories_an_agent_starts_in_is_not_guessed(project: Path) -> None:
    (project / "sub").mkdir()
    for more in ("dir_path", "directory", "cwd", "workdir"):
        given = {"command": "ls", "working_directory": str(project / "sub"), more: str(project)}
        call = {
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": given,
            "cwd": str(project),
        }
        assert answer("claude-code", json.encode(call), {"HOME": str(project.parent)}).exit_code == 2
        same = {"command": "ls", "working_directory": str(project), more: str(project)}
        assert asked(project, "claude-code", "Bash", same)["permissionDecision"] == "allow"


def test_a_name_that_a_project_gave_a_server_is_not_gone_by(project: Path) -> None:
    settings = project.parent / ".config/pinfold/settings.toml"
    settings.write_text('[mcp]\nallow = ["github:*", "npx github-mcp:*"]\n')
    environ = {"HOME": str(project.parent), "PATH": os.environ["PATH"]}
    call = {
        "hook_event_name": "beforeMCPExecution",
        "cwd": str(project),
        "tool_name": "x",
        "tool_input": "{}",
    }
    for name in ("server_name", "mcp_server_name"):
        for command, verdict in (("npx evil", "ask"), ("npx github-mcp", "allow")):
            payload = {**call, name: "github", "command": command}
            reply = answer("cursor", json.encode(payload), environ)
            assert json.decode(reply.stdout)["permission"] == verdict


def gemini(project: Path, line: str, **variables: str) -> tuple[int, Mapping[str, object]]:
    call = {
        "hook_event_name": "BeforeTool",
        "tool_name": "run_shell_command",
        "tool_input": {"command": line},
    }
    environ = {"HOME": str(project.parent), "PATH": os.environ["PATH"], **variables}
    reply = answer("gemini", json.encode({**call, "cwd": str(project), "session_id": "s"}), environ)
    said: Mapping[str, object] = json.decode(reply.stdout) if reply.stdout else {}
    return reply.exit_code, said


WIDER = (
    {"PINFOLD_MODE": "run_everything"},
    {"PINFOLD_POLICY": "danger-full-access"},
    {"PINFOLD_MODE": "run_everything", "PINFOLD_POLICY": "danger-full-access", "PINFOLD_NETWORK": "all"},
)


@pytest.mark.parametrize("variables", WIDER)
@pytest.mark.parametrize("line", ["ship it", "touch ~/x", "$X"])
def test_a_variable_of_the_project_widens_nothing(
    variables: dict[str, str], line: str, project: Path
) -> None:
    """Gemini CLI reads the project's `.env`, and its hooks get the variables."""
    assert gemini(project, line, **variables) == gemini(project, line)


def test_a_variable_of_the_project_may_narrow(project: Path) -> None:
    assert gemini(project, "ls")[1]["decision"] == "allow"
    assert gemini(project, "ls", PINFOLD_MODE="ask_every_time")[1]["decision"] == "ask"


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
@pytest.mark.parametrize("place", ["@/conf", "/proc/self/cwd/conf", "@/link/conf"])
def test_no_variable_leads_settings_or_answers_into_the_project(
    name: str, place: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "conf/pinfold").mkdir(parents=True)
    (project / "conf/pinfold/settings.toml").write_text('mode = "run_everything"\n')
    (project / "link").symlink_to(".")
    variables = {name: place.replace("@", str(project))}
    assert gemini(project, "ls", **variables)[1]["decision"] == "deny"
    assert not is_wanted({"HOME": str(project.parent), "XDG_STATE_HOME": f"{project}/conf"})


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_no_variable_leads_settings_or_answers_into_a_conversations_tmp(name: str, project: Path) -> None:
    """Commands of the conversation write there, and the project's `.env` as well."""
    scratch = scratch_directory("gemini", str(project), {"HOME": str(project.parent)})
    assert scratch
    try:
        settings = Path(scratch, "conf/pinfold/settings.toml")
        settings.parent.mkdir(parents=True)
        settings.write_text('mode = "run_everything"\n')
        (project / "link").symlink_to(scratch)
        for place in (f"{scratch}/conf", f"{project}/link/conf"):
            assert gemini(project, "ls", **{name: place})[1]["decision"] == "deny"
    finally:
        remove_scratch("gemini", str(project), {"HOME": str(project.parent)})


def test_the_usual_places_may_be_named(project: Path) -> None:
    home = project.parent
    variables = {"XDG_CONFIG_HOME": f"{home}/.config", "XDG_STATE_HOME": f"{home}/.local/state"}
    assert gemini(project, "ls", **variables)[1]["decision"] == "allow"
    assert gemini(project, "ls", XDG_CONFIG_HOME=f"{home}/elsewhere")[1]["decision"] == "allow"
    assert is_wanted({"HOME": str(home), **variables})
