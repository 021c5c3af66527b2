"""What switches agents' hooks off is found, wherever it is written."""

import json
import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from pinfold.integrations.install.disabled_hooks import codex_hash
from pinfold.integrations.install.health import probe_hooks
from pinfold.sandbox.doctor_report import LayerReport
from tests.integrations.own_home import ROOT, pinfold
from tests.probe_runner import interpreter

HOOK = {"type": "command", "command": "/opt/hook codex", "timeout": 600}


class World:
    """A home with an agent's hooks, and a project."""

    def __init__(self, top: Path, agent: str) -> None:
        self.home, self.project = top / "home", top / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.environ = {"HOME": str(self.home), "PATH": "/nowhere"}
        if agent == "gemini":
            self.environ["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
        assert pinfold("install", agent, home=self.home).returncode == 0

    def put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add(self, path: Path, **members: object) -> None:
        old = json.loads(path.read_text()) if path.exists() else {}
        self.put(path, json.dumps({**old, **members}))

    def found(self) -> LayerReport:
        (report,) = probe_hooks(self.environ, (str(self.project),))
        return report


def test_claude_code(tmp_path: Path) -> None:
    world = World(tmp_path, "claude-code")
    assert world.found().state == "ready"
    user = world.home / ".claude/settings.json"
    project, local = (world.project / f".claude/settings{name}.json" for name in ("", ".local"))
    for path in (user, project, local):
        world.add(path, disableAllHooks=True)
        found = world.found()
        assert found.state == "not" and found.needed and f"`disableAllHooks` in {path}" in found.detail
        assert found.fix == f"${{EDITOR:-vi}} {path}"
    world.add(local, disableAllHooks=False)
    assert world.found().state == "ready"


def test_a_claude_code_that_lets_late_hooks_pass(tmp_path: Path) -> None:
    world = World(tmp_path, "claude-code")
    program = world.home / "node_modules/@anthropic-ai/claude-code/bin/claude.exe"
    world.put(program, "")
    package = program.parent.parent / "package.json"
    world.environ["CLAUDE_CODE_EXECPATH"] = str(program)
    for version, state in (("2.1.197", "partly"), ("2.1.295", "ready"), ("3.0.0", "ready")):
        world.put(package, json.dumps({"name": "@anthropic-ai/claude-code", "version": version}))
        found = world.found()
        assert found.state == state and (state == "ready" or (not found.needed and version in found.detail))
    for version, state in (("2.1.294", "partly"), ("2.1.327", "ready")):
        program = world.home / f".local/share/claude/versions/{version}"
        world.put(program, "")
        world.environ["CLAUDE_CODE_EXECPATH"] = str(program)
        assert world.found().state == state


def test_codex_knows_a_hook_by_this_hash() -> None:
    """The first two are what `hooks/list` of Codex 0.169.0 says of these hooks."""
    command = (
        "/tmp/h/agentsee/main/.venv/bin/python -I -S"
        " /tmp/h/agentsee/main/src/pinfold/integrations/hooks/start.py codex"
    )
    hook = {**HOOK, "command": command}
    assert codex_hash("pre_tool_use", "^(Bash|apply_patch|mcp__.*)$", hook) == (
        "sha256:ebc8b88f2932a60c7d8eb1cd7972709fa4c663473b05fdcc8704422017dbec8f"
    )
    assert codex_hash("session_start", None, hook) == (
        "sha256:63a0e14ad27e42dc5f090d67180cf27c8d70a35e92a2f724330741a1075850fc"
    )
    assert codex_hash("stop", None, hook) != codex_hash("stop", "", hook)


def test_codex(tmp_path: Path) -> None:
    world = World(tmp_path, "codex")
    file, config = (world.home / ".codex" / name for name in ("hooks.json", "config.toml"))
    assert "does not trust the PreToolUse hook yet" in world.found().detail
    trusted = ""
    for event, groups in json.loads(file.read_text())["hooks"].items():
        label = re.sub("(?<!^)([A-Z])", r"_\1", event).lower()
        known = codex_hash(label, groups[0].get("matcher"), groups[0]["hooks"][0])
        trusted += f'[hooks.state."{file}:{label}:0:0"]\ntrusted_hash = "{known}"\n'
    world.put(config, trusted)
    assert world.found().state == "ready"
    world.put(config, f"{trusted}enabled = false\n")
    assert "is switched off in Codex" in world.found().detail
    world.put(config, trusted.replace('"sha256:', '"sha256:0'))
    assert "any more" in world.found().detail
    for name in ("hooks", "codex_hooks"):
        world.put(config, f"[features]\n{name} = false\n{trusted}")
        found = world.found()
        assert found.state == "not" and f"`features.{name}` in {config}" in found.detail
    world.put(config, trusted)
    world.put(world.project / ".codex/config.toml", "[features]\nhooks = false\n")
    assert str(world.project) in world.found().detail


def test_gemini(tmp_path: Path) -> None:
    world = World(tmp_path, "gemini")
    assert world.found().state == "ready"
    user, project = (each / ".gemini/settings.json" for each in (world.home, world.project))
    for path, config in (
        (user, {"enabled": False}),
        (project, {"enabled": False}),
        (project, {"disabled": ["pinfold"]}),
    ):
        world.add(path, hooksConfig=config)
        found = world.found()
        assert found.state == "not" and str(path) in found.detail
        world.add(path, hooksConfig={"enabled": True})
        assert world.found().state == "ready"
    del world.environ["GEMINI_CLI_TRUST_WORKSPACE"]
    assert "until you trust that folder" in world.found().detail
    folders = world.home / ".gemini/trustedFolders.json"
    for place, word, state in (
        (world.project, "TRUST_FOLDER", "ready"),
        (tmp_path, "TRUST_FOLDER", "ready"),
        (world.project / "x", "TRUST_PARENT", "ready"),
        (world.project / "x", "TRUST_FOLDER", "not"),
    ):
        world.put(folders, json.dumps({str(place): word}))
        assert world.found().state == state
    world.put(folders, json.dumps({str(tmp_path): "TRUST_FOLDER", str(world.project): "DO_NOT_TRUST"}))
    assert world.found().state == "not"
    world.add(user, security={"folderTrust": {"enabled": False}})
    assert world.found().state == "ready"


def test_the_first_answer_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, "codex")
    payload = {"hook_event_name": "SessionStart", "cwd": str(world.project), "source": "startup"}
    done = pinfold("hook", "codex", home=world.home, given=json.dumps(payload))
    told = json.loads(done.stdout)
    assert "does not trust the PreToolUse hook yet" in told["systemMessage"]
    assert "does not trust the PreToolUse hook yet" in told["hookSpecificOutput"]["additionalContext"]
    status = pinfold("status", home=world.home)
    assert "note: codex hooks: Codex does not trust the PreToolUse hook yet" in status.stdout, status


MANAGED = """
set -e
mount -t overlay over -o lowerdir=/etc,upperdir={top}/upper,workdir={top}/work /etc
cd {top}
{pinfold} install --managed {agent}
{pinfold} install --managed {agent} | grep -q 'is installed already'
{pinfold} doctor --json > {top}/doctor || true
find /etc/codex /etc/claude-code /etc/gemini-cli /etc/cursor -type f 2>/dev/null > {top}/made || true
{pinfold} uninstall --managed {agent}
! find /etc/codex /etc/claude-code /etc/gemini-cli /etc/cursor -type f 2>/dev/null | grep -q .
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="an administrator's files are root's")
@pytest.mark.parametrize(
    ("agent", "files"),
    [
        ("claude-code", ["/etc/claude-code/managed-settings.json"]),
        ("codex", ["/etc/codex/hooks.json", "/etc/codex/requirements.toml"]),
        ("gemini", ["/etc/gemini-cli/settings.json"]),
        ("cursor", ["/etc/cursor/hooks.json"]),
    ],
)
def test_the_administrators_place(agent: str, files: list[str], tmp_path: Path) -> None:
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    script = MANAGED.format(top=tmp_path, agent=agent, pinfold=f"{interpreter('ordinary')} -m pinfold")
    libraries = os.path.dirname(os.path.dirname(msgspec.__file__))
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    environ["PYTHONPATH"] = f"{ROOT}/src:{libraries}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=environ, capture_output=True, text=True)
    if "mount: " in done.stderr:
        pytest.skip("no overlay can be mounted here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted((tmp_path / "made").read_text().split()) == files
    layers = json.loads((tmp_path / "doctor").read_text())["layers"]
    (found,) = (each for each in layers if each["name"] == f"{agent} hooks")
    assert found["state"] in ("ready", "partly"), found


def test_an_ordinary_user_is_shown_the_administrators_place(tmp_path: Path) -> None:
    shown = pinfold("install", "--managed", "claude-code", "--dry-run", home=tmp_path)
    assert shown.returncode == 0 and "+++ /etc/claude-code/managed-settings.json" in shown.stdout
    refused = pinfold("install", "--managed", "vscode", home=tmp_path)
    assert refused.returncode and "no place for an administrator" in refused.stderr
    if os.geteuid():
        refused = pinfold("install", "--managed", "codex", home=tmp_path)
        assert "sudo pinfold install --managed codex" in refused.stderr


@pytest.mark.parametrize(
    ("agent", "name", "key"),
    [("droid", ".factory/hooks.json", "hooksDisabled"), ("qwen", ".qwen/settings.json", "disableAllHooks")],
)
def test_one_key_in_a_file(agent: str, name: str, key: str, tmp_path: Path) -> None:
    world = World(tmp_path, agent)
    assert world.found().state == "ready"
    for path in (world.home / name, world.project / name):
        before = path.read_text() if path.exists() else "{}"
        world.add(path, **{key: True})
        found = world.found()
        assert found.state == "not" and found.needed and f"`{key}` in {path}" in found.detail
        world.put(path, before)
        assert world.found().state == "ready"
