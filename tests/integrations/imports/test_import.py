"""`pinfold import`: what each agent's settings become, and that nothing is widened silently."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pinfold.cli import main
from pinfold.integrations.hooks.rewrite import plan_rule
from pinfold.integrations.imports import claude, codex, cursor, gemini
from pinfold.integrations.imports.merge import merge
from pinfold.integrations.imports.rules import Fit, ImportedRules
from pinfold.settings.parse_layer import read_layer
from pinfold.settings.toml import parse
from tests.integrations.own_home import pinfold

S, N, W, X, H = Fit.SAME, Fit.NARROWER, Fit.WIDER, Fit.NONE, Fit.NEEDLESS

CLAUDE: list[tuple[dict[str, Any], list[tuple[Fit, str, object]]]] = [
    # commands
    ({"permissions": {"allow": ["Bash(npm run *)"]}}, [(S, "commands.allow", "npm run")]),
    ({"permissions": {"allow": ["Bash(npm run:*)"]}}, [(S, "commands.allow", "npm run")]),
    ({"permissions": {"allow": ["Bash(npm test)"]}}, [(W, "commands.allow", "npm test")]),
    ({"permissions": {"deny": ["Bash(git push)"]}}, [(N, "commands.deny", "git push")]),
    ({"permissions": {"ask": ["Bash(git push *)"]}}, [(S, "commands.ask", "git push")]),
    ({"permissions": {"allow": ["Bash(npm*)"]}}, [(X, "", "")]),
    ({"permissions": {"deny": ["Bash(curl*)"]}}, [(S, "commands.deny", "curl"), (X, "", "")]),
    ({"permissions": {"deny": ["Bash(git push * main)"]}}, [(N, "commands.ask", "git push")]),
    ({"permissions": {"allow": ["Bash(git * main)"]}}, [(X, "", "")]),
    ({"permissions": {"allow": ["Bash", "Bash(*)"]}}, [(X, "", ""), (X, "", "")]),
    ({"permissions": {"allow": ["Bash(a && b)"]}}, [(X, "", "")]),
    ({"permissions": {"allow": [plan_rule("claude-code")]}}, [(H, "", "")]),
    # files
    ({"permissions": {"deny": ["Read(//**/.env)"]}}, [(S, "filesystem.hide", "/**/.env")]),
    ({"permissions": {"deny": ["Read(./secrets/**)"]}}, [(S, "filesystem.hide", "./secrets")]),
    ({"permissions": {"deny": ["Read(~/.aws/**)"]}}, [(S, "filesystem.hide", "~/.aws")]),
    ({"permissions": {"deny": ["Read(/etc/x)"]}}, [(X, "", "")]),
    ({"permissions": {"deny": ["Read"]}}, [(X, "", "")]),
    ({"permissions": {"deny": ["Edit(vendor/**)"]}}, [(S, "filesystem.protect", "vendor")]),
    ({"permissions": {"allow": ["Read(~/docs/**)"]}}, [(H, "", "")]),
    ({"permissions": {"allow": ["Edit(~/notes/**)"]}}, [(W, "filesystem.write", "~/notes")]),
    ({"permissions": {"allow": ["Edit(//**)", "Edit(src/**)"]}}, [(X, "", ""), (X, "", "")]),
    ({"permissions": {"deny": ["Write(x)"]}}, [(X, "", "")]),
    (
        {"permissions": {"additionalDirectories": ["/srv/x", "../lib"]}},
        [(S, "filesystem.write", "/srv/x"), (X, "", "")],
    ),
    # hosts and tools
    ({"permissions": {"allow": ["WebFetch(domain:a.example)"]}}, [(W, "network.allow", "a.example")]),
    ({"permissions": {"deny": ["WebFetch(domain:a.example)"]}}, [(N, "network.deny", "a.example")]),
    ({"permissions": {"allow": ["mcp__github"]}}, [(S, "mcp.allow", "github:*")]),
    ({"permissions": {"allow": ["mcp__github__get"]}}, [(S, "mcp.allow", "github:get")]),
    ({"permissions": {"allow": ["mcp__github__get_*", "mcp__*"]}}, [(X, "", ""), (X, "", "")]),
    ({"permissions": {"deny": ["mcp__github"]}}, [(X, "", "")]),
    ({"permissions": {"allow": ["Task", "(", 7]}}, [(X, "", ""), (X, "", "")]),
    ({"permissions": {"defaultMode": "bypassPermissions"}}, [(X, "", "")]),
    # its sandbox
    ({"sandbox": {"autoAllowBashIfSandboxed": False}}, [(S, "sandbox.auto_allow", False)]),
    ({"sandbox": {"allowUnsandboxedCommands": False}}, [(S, "sandbox.allow_unsandboxed", False)]),
    ({"sandbox": {"excludedCommands": ["docker *"]}}, [(S, "sandbox.excluded_commands", "docker")]),
    ({"sandbox": {"excludedCommands": ["docker"]}}, [(W, "sandbox.excluded_commands", "docker")]),
    ({"sandbox": {"filesystem": {"allowWrite": ["~/.kube"]}}}, [(S, "filesystem.write", "~/.kube")]),
    ({"sandbox": {"filesystem": {"allowWrite": ["/", "~/", "."]}}}, [(X, "", "")] * 3),
    ({"sandbox": {"filesystem": {"denyRead": ["~/x"]}}}, [(S, "filesystem.hide", "~/x")]),
    ({"sandbox": {"network": {"allowedDomains": ["*.a.example"]}}}, [(S, "network.allow", "*.a.example")]),
    ({"sandbox": {"network": {"allowedDomains": ["*", "http://x"]}}}, [(X, "", ""), (X, "", "")]),
    ({"sandbox": {"network": {"strictAllowlist": True}}}, [(S, "network.access", "rules")]),
    (
        {"sandbox": {"credentials": {"envVars": [{"name": "GH_TOKEN", "mode": "mask"}]}}},
        [(N, "environment.drop", "GH_TOKEN")],
    ),
]
CURSOR: list[tuple[dict[str, Any], list[tuple[Fit, str, object]]]] = [
    (
        {"terminalAllowlist": ["git", "git status", "npm:install*"]},
        [(S, "commands.allow", "git"), (S, "commands.allow", "git status"), (X, "", "")],
    ),
    (
        {"mcpAllowlist": ["github:*", "*:search", "*:*"]},
        [(S, "mcp.allow", "github:*"), (S, "mcp.allow", "*:search"), (X, "", "")],
    ),
    (
        {"permissions": {"allow": ["Shell(ls)", "Shell(curl:*)"]}},
        [(S, "commands.allow", "ls"), (S, "commands.allow", "curl")],
    ),
    (
        {"permissions": {"deny": ["Shell(rm)", "Shell(git:push*)"]}},
        [(S, "commands.deny", "rm"), (N, "commands.ask", "git")],
    ),
    (
        {"permissions": {"deny": ["Read(.env*)", "Write(x.lock)"]}},
        [(S, "filesystem.hide", ".env*"), (S, "filesystem.protect", "x.lock")],
    ),
    ({"permissions": {"allow": ["WebFetch(*.a.example)"]}}, [(W, "network.allow", "*.a.example")]),
    ({"type": "insecure_none"}, [(X, "", "")]),
    ({"type": "workspace_readonly"}, [(S, "sandbox.policy", "read-only")]),
    ({"additionalReadwritePaths": ["/home/me/.docker"]}, [(S, "filesystem.write", "/home/me/.docker")]),
    (
        {"networkPolicy": {"default": "deny", "allow": ["*.a.example"], "deny": ["b.example"]}},
        [
            (S, "network.access", "rules"),
            (S, "network.allow", "*.a.example"),
            (S, "network.allow", "a.example"),
            (S, "network.deny", "b.example"),
        ],
    ),
    ({"networkPolicy": {"default": "allow"}}, [(S, "network.access", "all")]),
]
CODEX: list[tuple[dict[str, Any], list[tuple[Fit, str, object]]]] = [
    ({"sandbox_mode": "read-only"}, [(S, "sandbox.policy", "read-only")]),
    ({"sandbox_mode": "danger-full-access"}, [(X, "", "")]),
    (
        {"sandbox_workspace_write": {"writable_roots": ["/srv/x"], "network_access": True}},
        [(S, "filesystem.write", "/srv/x"), (S, "network.access", "all")],
    ),
    (
        {"shell_environment_policy": {"exclude": ["AWS_*", "a b"]}},
        [(S, "environment.drop", "AWS_*"), (X, "", "")],
    ),
    (
        {
            "default_permissions": "dev",
            "permissions": {
                "dev": {
                    "filesystem": {":minimal": "read", "/x.env": "deny", "/w": "write"},
                    "network": {"domains": {"*.a.example": "allow"}},
                }
            },
        },
        [
            (X, "", ""),
            (S, "filesystem.hide", "/x.env"),
            (S, "filesystem.write", "/w"),
            (S, "network.allow", "*.a.example"),
        ],
    ),
]
GEMINI: list[tuple[dict[str, Any], list[tuple[Fit, str, object]]]] = [
    ({"tools": {"allowed": ["run_shell_command(git status)"]}}, [(S, "commands.allow", "git status")]),
    ({"tools": {"allowed": ["run_shell_command"]}}, [(X, "", "")]),
    ({"tools": {"exclude": ["run_shell_command(rm)"]}}, [(S, "commands.deny", "rm")]),
    ({"mcpServers": {"github": {"trust": True}, "x": {}}}, [(S, "mcp.allow", "github:*")]),
    (
        {
            "rule": [
                {"toolName": "run_shell_command", "commandPrefix": ["git", "npm"], "decision": "ask_user"}
            ]
        },
        [(S, "commands.ask", "git"), (S, "commands.ask", "npm")],
    ),
    (
        {"rule": [{"toolName": "run_shell_command", "commandPrefix": "git", "decision": "allow"}]},
        [(W, "commands.allow", "git")],
    ),
    ({"rule": [{"toolName": "run_shell_command", "commandRegex": "x", "decision": "deny"}]}, [(X, "", "")]),
    ({"rule": [{"toolName": "*", "decision": "allow"}]}, [(X, "", "")]),
    (
        {
            "rule": [
                {"toolName": "run_shell_command", "commandPrefix": "a", "decision": "deny", "modes": ["plan"]}
            ]
        },
        [(X, "", "")],
    ),
]
TABLE = [
    *((claude, data, wanted) for data, wanted in CLAUDE),
    *((cursor, data, wanted) for data, wanted in CURSOR),
    *((codex, data, wanted) for data, wanted in CODEX),
    *((gemini, data, wanted) for data, wanted in GEMINI),
]


@pytest.mark.parametrize(("agent", "data", "wanted"), TABLE)
def test_found(agent: Any, data: dict[str, Any], wanted: list[tuple[Fit, str, object]]) -> None:
    found = ImportedRules("f")
    agent.read(found, data)
    assert [(each.fit, each.key, each.value) for each in found.all] == wanted
    for each in found.all:
        assert each.why or each.fit is S
    merged = merge("", found.all, take_wider=True)
    read_layer(parse("user", "", merged.text))
    kept = merge("", found.all)
    assert not any(each.fit is W for each in kept.taken)


def test_codex_rules() -> None:
    found = ImportedRules("f")
    codex.read_rules(
        found,
        'prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="x")\n'
        'prefix_rule(pattern=["rm"], decision="forbidden")\n'
        'prefix_rule(pattern=["ls"])\nprefix_rule(pattern=x)\nhost_executable(name="git", paths=[])\n',
    )
    assert [(each.fit, each.key, each.value) for each in found.all] == [
        (S, "commands.ask", "git push"),
        (S, "commands.ask", "git fetch"),
        (S, "commands.deny", "rm"),
        (S, "commands.allow", "ls"),
        (X, "", ""),
    ]
    broken = ImportedRules("f")
    codex.read_rules(broken, "prefix_rule(")
    assert [each.fit for each in broken.all] == [X]


def test_a_scalar_only_narrows_unless_asked() -> None:
    found = ImportedRules("f")
    cursor.read(found, {"networkPolicy": {"default": "allow"}})
    assert merge("", found.all).text == ""
    assert [each.key for each in merge("", found.all).wider] == ["network.access"]
    assert tomllib.loads(merge("", found.all, take_wider=True).text) == {"network": {"access": "all"}}
    assert [each.why for each in merge("", found.all).wider] == [
        '`network.access` is "ask" unless you say otherwise'
    ]
    assert [each.why for each in merge('[network]\naccess = "none"\n', found.all).wider] == [
        'yours says `network.access = "none"`'
    ]
    text = '# mine\n[network]\naccess = "none" # no\n'
    narrow = ImportedRules("f")
    cursor.read(narrow, {"networkPolicy": {"default": "deny"}})
    assert merge(text, narrow.all).text == text
    text = '[network] # mine\naccess = "all" # yes\nallow = []\n'
    assert merge(text, narrow.all).text == '[network] # mine\naccess = "rules" # yes\nallow = []\n'


def test_as_a_program(tmp_path: Path) -> None:
    theirs = tmp_path / ".claude/settings.json"
    theirs.parent.mkdir()
    theirs.write_text(
        '{"permissions": {"deny": ["Bash(git push *)"], "allow": ["Bash(npm test)"]}, // mine\n'
        ' "sandbox": {"autoAllowBashIfSandboxed": false, "enabled": false}}'
    )
    ours = tmp_path / ".config/pinfold/settings.toml"
    first = pinfold("import", "claude", home=tmp_path)
    assert first.returncode == 0, first.stderr
    assert '+deny = ["git push"]' in first.stdout and "nothing is changed yet" in first.stdout
    assert "Bash(npm test)" in first.stdout
    wider = pinfold("import", "claude", "--wider", "--settings", "a b.toml", home=tmp_path).stdout
    assert "to write this: pinfold import claude-code --write --wider --settings 'a b.toml'" in wider
    assert not ours.exists()
    said = json.loads(pinfold("import", "claude", "--write", "--json", home=tmp_path).stdout)
    assert said["written"] is True
    assert {each["text"] for each in said["wider"]} == {"Bash(npm test)", "sandbox.enabled false"}
    assert tomllib.loads(ours.read_text()) == {
        "commands": {"deny": ["git push"]},
        "sandbox": {"auto_allow": False},
    }
    ours.unlink()
    written = pinfold("import", "claude", "--write", home=tmp_path)
    assert written.stdout.endswith("changed .config/pinfold/settings.toml\n")
    again = pinfold("import", "claude", "--write", home=tmp_path)
    assert "there is nothing to import" in again.stdout
    assert "no settings of codex" in pinfold("import", "codex", home=tmp_path).stdout
    theirs.write_text('{"permissions": {"allow": ["Read(//etc/**)"]}}')
    needless = pinfold("import", "claude", home=tmp_path).stdout
    assert (
        "not needed, since it is the default here:" in needless
        and "what is not hidden can be read" in needless
    )
    theirs.write_text("{")
    broken = pinfold("import", "claude", home=tmp_path)
    assert broken.returncode == 2 and "settings.json:1: is not JSON" in broken.stderr


def test_what_another_wrote_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = tmp_path / ".claude/settings.json", tmp_path / "ours.toml"
    theirs.parent.mkdir()
    theirs.write_text('{"permissions": {"deny": ["Bash(git push *)"]}}')

    @contextmanager
    def turn_after_another(path: str) -> Iterator[None]:
        Path(path).write_text('[commands]\nask = ["make"]\n')
        yield

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("pinfold.settings.files.locked", turn_after_another)
    assert main(["import", "claude", "--write", "--settings", str(ours)]) == 0
    assert tomllib.loads(ours.read_text()) == {"commands": {"ask": ["make"], "deny": ["git push"]}}
