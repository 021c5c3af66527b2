"""`pinfold install` and `uninstall`, as programs."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pinfold.cli.install import agent_name
from pinfold.integrations.hooks import AGENTS, SPELLINGS
from pinfold.integrations.hooks.rewrite import Wrapping
from pinfold.integrations.install.agents import GUARD, MARK
from pinfold.integrations.install.health import probe_hooks
from pinfold.model.escape_text import quoted
from tests.integrations.own_home import pinfold

FILES = {
    "claude-code": (".claude/settings.json", ".claude/commands/pinfold.md"),
    "cursor": (".cursor/hooks.json", ".cursor/commands/pinfold.md"),
    "codex": (".codex/hooks.json", ".codex/prompts/pinfold.md", ".codex/prompts/sandbox.md"),
    "gemini": (
        ".gemini/settings.json",
        ".gemini/policies/pinfold.toml",
        ".gemini/commands/pinfold.toml",
        ".gemini/commands/sandbox.toml",
    ),
    "vscode": (
        ".copilot/hooks/pinfold.json",
        ".config/Code/User/prompts/pinfold.prompt.md",
        ".config/Code/User/prompts/sandbox.prompt.md",
    ),
    "opencode": (
        ".config/opencode/plugins/pinfold.js",
        ".config/opencode/commands/pinfold.md",
        ".config/opencode/commands/sandbox.md",
    ),
    "pi": (
        ".pi/agent/extensions/pinfold.js",
        ".pi/agent/prompts/pinfold.md",
        ".pi/agent/prompts/sandbox.md",
    ),
    "droid": (
        ".factory/hooks.json",
        ".factory/commands/pinfold.md",
        ".factory/commands/sandbox.md",
    ),
    "auggie": (
        ".augment/settings.json",
        ".augment/commands/pinfold.md",
        ".augment/commands/sandbox.md",
    ),
    "qwen": (".qwen/settings.json", ".qwen/commands/pinfold.md", ".qwen/commands/sandbox.md"),
}
THEIRS = """{
   // what a person wrote
   "theme" : "dark",
   "hooks": {"Stop": [ {"command": "say done"} ]},   // and this
}
"""
PRE = {"cursor": "preToolUse", "gemini": "BeforeTool"}
PLUGINS = ("opencode", "pi")
IN_JSON = [agent for agent in AGENTS if agent not in PLUGINS]


def hooks_of(agent: str, whole: dict[str, Any]) -> dict[str, Any]:
    """Where an agent has its events: Droid has them at the top."""
    return whole if agent == "droid" else whole["hooks"]


def files(home: Path) -> dict[str, bytes | None]:
    """What each holds; a directory nothing."""
    return {
        str(path.relative_to(home)): None if path.is_dir() else path.read_bytes()
        for path in home.rglob("*")
        if ".local" not in path.parts
    }


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("theirs", [None, THEIRS, THEIRS.replace("\n", "\r\n"), "{}", ""])
def test_there_and_back(agent: str, theirs: str | None, tmp_path: Path) -> None:
    path = tmp_path / FILES[agent][0]
    if theirs is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(theirs.encode())
        path.chmod(0o640)
    before = files(tmp_path)
    dry = pinfold("install", agent, "--dry-run", home=tmp_path)
    assert dry.returncode == 0 and "+" in dry.stdout
    assert files(tmp_path) == before
    assert pinfold("install", agent, home=tmp_path).returncode == 0
    installed = files(tmp_path)
    assert set(FILES[agent]) <= set(installed)
    again = pinfold("install", agent, home=tmp_path)
    assert f"{agent} is installed already" in again.stdout
    assert files(tmp_path) == installed
    if theirs:
        assert path.stat().st_mode & 0o777 == 0o640
    assert pinfold("uninstall", agent, home=tmp_path).returncode == 0
    assert files(tmp_path) == before
    assert f"{agent} has no pinfold hooks" in pinfold("uninstall", agent, home=tmp_path).stdout


def test_where_nothing_can_be_kept_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("")
    done = pinfold("install", "claude-code", home=tmp_path)
    assert done.returncode and not (tmp_path / ".claude").exists()
    assert "the record for undoing this cannot be written" in done.stderr and "XDG_STATE_HOME" in done.stderr


def test_an_empty_directory_of_theirs_stays(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    assert pinfold("install", "claude-code", home=tmp_path).returncode == 0
    assert pinfold("uninstall", "claude-code", home=tmp_path).returncode == 0
    assert files(tmp_path) == {".claude": None}


def test_claude_codes_own_rules_stay_beside_the_one_for_plans(tmp_path: Path) -> None:
    path = tmp_path / FILES["claude-code"][0]
    path.parent.mkdir()
    theirs = {"permissions": {"allow": ["Bash(make *)"], "deny": ["Read(x)"]}}
    path.write_text(json.dumps(theirs))
    assert pinfold("install", "claude-code", home=tmp_path).returncode == 0
    value = json.loads(path.read_text())
    launcher = os.path.join(os.path.dirname(sys.executable), "pinfold")
    rule = f"Bash({launcher} run --asked-by claude-code --policy read-only *)"
    assert value["permissions"]["allow"] == ["Bash(make *)", rule]
    value["permissions"]["allow"].append("Bash(make)")
    path.write_text(json.dumps(value))
    assert pinfold("uninstall", "claude-code", home=tmp_path).returncode == 0
    theirs["permissions"]["allow"].append("Bash(make)")
    assert json.loads(path.read_text()) == theirs


def test_geminis_rule_names_the_lines_that_its_hook_makes(tmp_path: Path) -> None:
    """And not in plan mode, of which the hook does not learn."""
    assert pinfold("install", "gemini", home=tmp_path).returncode == 0
    path = tmp_path / ".gemini/policies/pinfold.toml"
    (rule,) = tomllib.loads(path.read_text())["rule"]
    assert rule["decision"] == "allow" and rule["modes"] == ["default", "autoEdit", "yolo"]
    for conversation in ("", "c"):
        line = Wrapping("gemini", ("/a b",), conversation).around("ls")
        assert line.startswith(tuple(f"{start} " for start in rule["commandPrefix"]))
    path.write_text("[[rule]]\n")
    assert f"{path} is yours and stays" in pinfold("install", "gemini", home=tmp_path).stdout
    assert path.read_text() == "[[rule]]\n"


@pytest.mark.parametrize("agent", IN_JSON)
def test_what_a_person_changed_since_is_kept(agent: str, tmp_path: Path) -> None:
    path = tmp_path / FILES[agent][0]
    assert pinfold("install", agent, home=tmp_path).returncode == 0
    value = json.loads(path.read_text())
    value["theirs"] = 1
    path.write_text(json.dumps(value))
    assert "is installed already" in pinfold("install", agent, home=tmp_path).stdout
    hooks_of(agent, value)["Stop"] = [{"command": "say done"}]
    path.write_text(json.dumps(value))
    assert pinfold("uninstall", agent, home=tmp_path).returncode == 0
    kept = json.loads(path.read_text())
    assert hooks_of(agent, kept).pop("Stop") == [{"command": "say done"}]
    assert kept.pop("hooks", {}) == {} and kept.pop("version", 1) == 1
    assert kept == {"theirs": 1}


@pytest.mark.parametrize("agent", PLUGINS)
def test_a_plugin_of_another_pinfold_is_replaced_and_removed(agent: str, tmp_path: Path) -> None:
    path = tmp_path / FILES[agent][0]
    assert pinfold("install", agent, home=tmp_path).returncode == 0
    written = path.read_text()
    path.write_text(written.replace("PreToolUse", "Other"))
    (found,) = probe_hooks({"HOME": str(tmp_path)})
    assert found.state == "not" and found.fix == f"pinfold install {agent}", found
    assert pinfold("install", agent, home=tmp_path).returncode == 0
    assert path.read_text() == written
    path.write_text(written + "// more")
    assert pinfold("uninstall", agent, home=tmp_path).returncode == 0
    assert not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("// theirs")
    assert pinfold("uninstall", agent, home=tmp_path).returncode == 0
    assert path.read_text() == "// theirs"


@pytest.mark.parametrize("agent", IN_JSON)
def test_the_hook_that_is_written_answers(agent: str, tmp_path: Path) -> None:
    assert pinfold("install", agent, home=tmp_path).returncode == 0
    event = PRE.get(agent, "PreToolUse")
    entry = hooks_of(agent, json.loads((tmp_path / FILES[agent][0]).read_text()))[event][0]
    line = entry["command"] if "command" in entry else entry["hooks"][0]["command"]
    payload = {
        "hook_event_name": event,
        "cwd": str(tmp_path),
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    for shell in ("bash", "sh"):
        run = subprocess.run(
            [shell, "-c", line],
            input=json.dumps(payload),
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PINFOLD_HOOK_SERVICE": "0"},
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        assert ("--asked-by" if agent != "qwen" else "cannot put the command into the sandbox") in run.stdout


def test_fail_closed_switches_are_set(tmp_path: Path) -> None:
    for agent in ("claude-code", "cursor"):
        assert pinfold("install", agent, home=tmp_path).returncode == 0
    claude = json.loads((tmp_path / FILES["claude-code"][0]).read_text())
    assert claude["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"] == "block"
    cursor = json.loads((tmp_path / FILES["cursor"][0]).read_text())
    assert cursor["version"] == 1
    judged = {event: entries for event, entries in cursor["hooks"].items() if event != "sessionStart"}
    assert all(entry["failClosed"] for entries in judged.values() for entry in entries)


def test_a_slash_command_of_theirs_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / ".gemini/commands/sandbox.toml"
    theirs.parent.mkdir(parents=True)
    theirs.write_text('prompt = "mine"\n')
    assert "/pinfold" in pinfold("install", "gemini", home=tmp_path).stdout
    assert theirs.read_text() == 'prompt = "mine"\n'
    ours = tomllib.loads((tmp_path / ".gemini/commands/pinfold.toml").read_text())
    assert "pinfold exclude add 'COMMAND'" in ours["prompt"] and "{{args}}" in ours["prompt"]
    assert pinfold("uninstall", "gemini", home=tmp_path).returncode == 0
    assert [*files(tmp_path)][-1] == ".gemini/commands/sandbox.toml" and len(files(tmp_path)) == 3


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 1}', "\ufeff{}"])
def test_what_cannot_be_edited_is_one_clear_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(text)
    run = pinfold("install", "claude-code", home=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("pinfold: ") and "settings.json" in run.stderr.splitlines()[0]
    assert path.read_text() == text
    assert not (tmp_path / ".claude/commands").exists()


def test_an_old_way_in_is_replaced(tmp_path: Path) -> None:
    assert pinfold("install", "codex", home=tmp_path).returncode == 0
    path = tmp_path / FILES["codex"][0]
    path.write_text(path.read_text().replace(sys.executable, "/gone/bin/python"))
    assert "changed" in pinfold("install", "codex", home=tmp_path).stdout
    assert "/gone" not in path.read_text()
    assert path.read_text().count("start.py") == 4
    assert pinfold("uninstall", "codex", home=tmp_path).returncode == 0
    assert "start.py" not in (path.read_text() if path.exists() else "")


@pytest.mark.parametrize("agent", AGENTS)
def test_the_doctor_tells_of_hooks_whose_pinfold_is_gone(agent: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert not list(probe_hooks(environ))
    pinfold("install", agent, home=tmp_path)
    (found,) = probe_hooks(environ)
    assert found.name == f"{agent} hooks"
    assert found.state == ("not" if agent == "codex" else "ready"), found  # nobody has trusted Codex's
    file = tmp_path / FILES[agent][0]
    file.write_text(file.read_text().replace(f"/src/{MARK}", f"/gone/src/{MARK}"))
    (found,) = probe_hooks(environ)
    assert found.state == "not" and found.needed and found.fix == f"pinfold install {agent}"
    assert f"/gone/src/{MARK} is not there any more" in found.detail
    if agent in IN_JSON:
        file.write_text(file.read_text()[:-5])
        (found,) = probe_hooks(environ)
        assert found.state == "not" and "is not JSON" in found.detail


def test_a_hook_that_fails_is_a_no_for_a_shell(tmp_path: Path) -> None:
    """Whatever it ends with, and in whichever shell the agent runs it."""
    program = tmp_path / "hook"
    for code, said in ((0, ""), (1, "said"), (2, "said"), (2, ""), (7, ""), (139, ""), (None, "")):
        if code is None:
            program.unlink()
        else:
            program.write_text(
                f"#!/bin/sh\n[ {code} = 139 ] && kill -9 $$\nprintf '{said}' >&2\nexit {code}\n"
            )
            program.chmod(0o755)
        line = " ".join(map(quoted, ("/bin/sh", "-c", GUARD, "pinfold", str(program))))
        for shell in filter(None, map(shutil.which, ("sh", "bash", "zsh", "fish"))):
            done = subprocess.run([shell, "-c", line], capture_output=True, text=True)
            assert done.returncode == (2 if code != 0 else 0), (code, shell)
            assert done.stderr.startswith(said)
            if code not in (0, 2):
                assert "pinfold: the hook failed, which counts as no" in done.stderr


def test_the_doctor_tells_of_hooks_without_a_guard(tmp_path: Path) -> None:
    """As an earlier pinfold wrote them; they are replaced, and removed."""
    environ = {"HOME": str(tmp_path)}
    for agent in ("gemini", "cursor", "claude-code"):
        pinfold("install", agent, home=tmp_path)
        file = tmp_path / FILES[agent][0]
        text = file.read_text().replace(f"/bin/sh -c {json.dumps(quoted(GUARD))[1:-1]} pinfold ", "")
        assert "/bin/sh" not in text
        file.write_text(text)
        report = next(each for each in probe_hooks(environ) if each.name == f"{agent} hooks")
        assert report.state == "not" and "a call passes if they cannot start" in report.detail
        pinfold("uninstall", agent, home=tmp_path)
        assert not file.exists() or MARK not in file.read_text()
        file.write_text(text)
        assert pinfold("install", agent, home=tmp_path).returncode == 0
        assert "/bin/sh" in file.read_text()


def test_the_doctor_tells_of_hooks_that_an_earlier_pinfold_left(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    pinfold("install", "claude-code", home=tmp_path)
    file = tmp_path / FILES["claude-code"][0]
    file.write_text(file.read_text().replace("|Monitor", ""))
    (found,) = probe_hooks(environ)
    assert found.state == "not" and found.fix == "pinfold install claude-code"
    pinfold("install", "claude-code", home=tmp_path)
    (found,) = probe_hooks(environ)
    assert found.state == "ready"


def test_without_a_name_it_lists_what_is_here(tmp_path: Path) -> None:
    (tmp_path / ".pi/agent").mkdir(parents=True)
    (tmp_path / ".factory").mkdir()
    before = files(tmp_path)
    assert pinfold("install", "droid", home=tmp_path).returncode == 0
    (said,) = [json.loads(pinfold("install", "--json", home=tmp_path).stdout)]
    found = {each["agent"]: each for each in said["found"]}
    assert set(found) | set(said["notFound"]) == set(AGENTS) and not set(found) & set(said["notFound"])
    assert found["pi"]["file"] == str(tmp_path / FILES["pi"][0]) and not found["pi"]["is_installed"]
    assert found["pi"]["commands"] == ["/pinfold", "/sandbox"]
    assert found["droid"]["is_installed"] and not found["droid"]["trouble"]
    shown = pinfold("install", home=tmp_path).stdout
    assert "pi: not installed" in shown and "pinfold install pi" in shown and "droid: installed" in shown
    assert pinfold("uninstall", "droid", home=tmp_path).returncode == 0
    assert files(tmp_path) == before
    assert "name the agent" in pinfold("install", "--dry-run", home=tmp_path).stderr


@pytest.mark.parametrize(("spelling", "agent"), SPELLINGS.items())
def test_an_agent_has_other_names(spelling: str, agent: str, tmp_path: Path) -> None:
    assert agent_name(spelling.upper()) == agent and agent_name(agent) == agent and agent in AGENTS
    if spelling == "claude":
        assert pinfold("install", spelling, home=tmp_path).returncode == 0
        assert (tmp_path / FILES[agent][0]).exists()


def test_an_import_takes_each_spelling(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"permissions": {"deny": ["Bash(rm:*)"]}}')
    found = [pinfold("import", name, home=tmp_path).stdout for name in ("claude", "claude-code")]
    assert found[0] == found[1] and "pinfold import claude-code --write" in found[0]
