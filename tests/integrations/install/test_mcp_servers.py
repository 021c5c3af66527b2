"""`pinfold install AGENT --wrap-mcp`: an agent's stdio MCP servers run in a sandbox, and are put back."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.integrations.install.health import probe_hooks
from pinfold.integrations.install.mcp_servers import (
    ServerList,
    servers_in,
    with_words,
    without_wraps,
    wrapped_words,
)
from pinfold.model.errors import PolicyError
from tests.integrations.install.test_install import files
from tests.integrations.own_home import pinfold

FILES = {
    "claude-code": (".claude.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "droid": (".factory/mcp.json", "mcpServers"),
    "auggie": (".augment/settings.json", "mcpServers"),
    "qwen": (".qwen/settings.json", "mcpServers"),
}
JSON = """{
  // mine
  "KEY": {
    "files": {
      "command" : "npx",   // fetches
      "args": ["-y", "@x/files",
        "/srv"],
      "env": { "API_TOKEN": "x" },
    },
    "bare": { "command": "/usr/bin/server", "type": "stdio" },
    "box": {"command": "docker", "args": ["run", "-i", "x"]},
    "far": {"type": "http", "url": "https://mcp.example"}
  },
  "other": 1
}
"""
TOML = """model = "x"  # mine

[mcp_servers.files]
command = 'npx'  # fetches
args = [
    "-y", '@x/files',
    "/srv",  # there
]
env = { API_TOKEN = "x" }

[mcp_servers.bare]
command = "/usr/bin/server"

[mcp_servers]
box = { command = "docker", args = ["run", "-i", "x"] }
far = { url = "https://mcp.example" }
"""
WRAPPED = ("mcp", "wrap", "--env", "API_TOKEN", "--allow-domain", "registry.npmjs.org", "--", "npx")


def written(agent: str, home: Path) -> Path:
    name, key = FILES[agent]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOML if name.endswith(".toml") else JSON.replace("KEY", key))
    path.chmod(0o600)
    return path


def servers(path: Path, agent: str) -> dict[str, Any]:
    text, key = path.read_text(), FILES[agent][1]
    if path.suffix == ".toml":
        return dict(tomllib.loads(text)[key])
    from pinfold.integrations.install.jsonc import parse

    return dict(parse(text).value[key])


def words(entry: dict[str, Any]) -> list[str]:
    return [entry["command"], *entry["args"]]


@pytest.mark.parametrize("agent", FILES)
def test_there_and_back(agent: str, tmp_path: Path) -> None:
    path = written(agent, tmp_path)
    before = files(tmp_path)
    said = pinfold("install", agent, home=tmp_path)
    assert said.returncode == 0 and "MCP servers without a sandbox: bare, files\n" in said.stdout
    assert f"pinfold install {agent} --wrap-mcp all" in said.stdout
    assert "MCP server `box` stays outside: docker" in said.stdout
    assert words(servers(path, agent)["files"])[0] == "npx"
    done = pinfold("install", agent, "--wrap-mcp", "files", home=tmp_path)
    assert done.returncode == 0 and "MCP servers in a sandbox: files;" in done.stdout
    assert "MCP servers without a sandbox: bare\n" in done.stdout
    found = servers(path, agent)
    assert os.path.isabs(found["files"]["command"]) and found["files"]["env"] == {"API_TOKEN": "x"}
    at = words(found["files"]).index("mcp")
    assert words(found["files"])[at:] == [*WRAPPED, "-y", "@x/files", "/srv"]
    assert found["bare"]["command"] == "/usr/bin/server" and path.stat().st_mode & 0o777 == 0o600
    assert pinfold("install", agent, "--wrap-mcp", "all", home=tmp_path).returncode == 0
    assert words(servers(path, agent)["bare"])[-3:] == ["wrap", "--", "/usr/bin/server"]
    assert words(servers(path, agent)["box"])[0] == "docker"
    both = path.read_text()
    assert f"{agent} is installed already" in pinfold("install", agent, home=tmp_path).stdout
    assert path.read_text() == both
    assert pinfold("uninstall", agent, home=tmp_path).returncode == 0
    assert files(tmp_path) == before


@pytest.mark.parametrize("agent", FILES)
def test_what_the_agent_wrote_since_is_kept(agent: str, tmp_path: Path) -> None:
    path = written(agent, tmp_path)
    assert pinfold("install", agent, "--wrap-mcp", "all", home=tmp_path).returncode == 0
    text = path.read_text()
    edited = text.replace('"other": 1', '"other": 2').replace('model = "x"', 'model = "y"')
    path.write_text(edited)
    assert pinfold("uninstall", agent, home=tmp_path).returncode == 0
    wanted = TOML.replace('"x"  # mine', '"y"  # mine') if path.suffix == ".toml" else JSON
    wanted = wanted.replace("KEY", FILES[agent][1]).replace('"other": 1', '"other": 2')
    assert path.read_text() == wanted


def test_a_file_that_the_agent_wrote_anew_means_what_it_meant(tmp_path: Path) -> None:
    """Claude Code writes its whole file, in its own manner; options of a person's are theirs until then."""
    path = written("claude-code", tmp_path)
    path.write_text(
        json.dumps({"projects": {"/a": {"mcpServers": {"x": {"command": "uvx", "args": ["x"]}}}}})
    )
    before = json.loads(path.read_text())
    assert pinfold("install", "claude-code", "--wrap-mcp", "x", home=tmp_path).returncode == 0
    value = json.loads(path.read_text())
    entry = value["projects"]["/a"]["mcpServers"]["x"]
    assert entry["args"][-2:] == ["uvx", "x"] and "pypi.org" in entry["args"]
    entry["args"].insert(entry["args"].index("wrap") + 1, "--policy=read-only")
    path.write_text(json.dumps(value, indent=4))
    assert pinfold("install", "claude-code", home=tmp_path).returncode == 0
    kept = json.loads(path.read_text())["projects"]["/a"]["mcpServers"]["x"]
    assert "--policy=read-only" in kept["args"]
    assert pinfold("uninstall", "claude-code", home=tmp_path).returncode == 0
    assert json.loads(path.read_text()) == before


def test_a_server_of_no_such_name_changes_nothing(tmp_path: Path) -> None:
    written("cursor", tmp_path)
    before = files(tmp_path)
    done = pinfold("install", "cursor", "--wrap-mcp", "nothing", home=tmp_path)
    assert done.returncode == 2 and "no stdio MCP server `nothing`" in done.stderr
    assert "the servers are: bare, box, files" in done.stderr
    done = pinfold("install", "cursor", "--wrap-mcp", "box", home=tmp_path)
    assert done.returncode == 2 and "`box` cannot be wrapped: docker" in done.stderr
    assert files(tmp_path) == before


def test_a_file_that_cannot_be_read_is_no_obstacle_to_the_hooks(tmp_path: Path) -> None:
    path = written("claude-code", tmp_path)
    path.write_text("{")
    done = pinfold("install", "claude-code", home=tmp_path)
    assert done.returncode == 0 and "its MCP servers are not known: " in done.stdout
    assert pinfold("install", "claude-code", "--wrap-mcp", "all", home=tmp_path).returncode == 2
    assert path.read_text() == "{"


def test_what_a_person_wrapped_by_hand_stays(tmp_path: Path) -> None:
    path = written("cursor", tmp_path)
    text = json.dumps(
        {"mcpServers": {"x": {"command": "pinfold", "args": ["mcp", "wrap", "--", "uvx", "x"]}}}
    )
    path.write_text(text)
    assert (
        "MCP servers in a sandbox: x;"
        in pinfold("install", "cursor", "--wrap-mcp", "all", home=tmp_path).stdout
    )
    assert pinfold("uninstall", "cursor", home=tmp_path).returncode == 0
    assert path.read_text() == text


def test_no_key_of_a_server_is_copied_into_the_state(tmp_path: Path) -> None:
    for agent in ("claude-code", "codex"):
        path = written(agent, tmp_path)
        path.write_text(path.read_text().replace('"x"', '"a-secret"'))
        assert pinfold("install", agent, "--wrap-mcp", "all", home=tmp_path).returncode == 0
        state = tmp_path / f".local/state/pinfold/installed/{agent}.json"
        assert "a-secret" not in state.read_text() and "npx" in state.read_text()


def test_the_doctor_tells_of_servers_whose_pinfold_is_gone(tmp_path: Path) -> None:
    path = written("codex", tmp_path)
    assert pinfold("install", "codex", "--wrap-mcp", "files", home=tmp_path).returncode == 0
    environ = {"HOME": str(tmp_path)}
    assert [each.name for each in probe_hooks(environ)] == ["codex hooks"]
    program = servers(path, "codex")["files"]["command"]
    path.write_text(path.read_text().replace(program, "/gone/pinfold"))
    _, found = probe_hooks(environ)
    assert found.state == "not" and "/gone/pinfold, which starts `files`" in found.detail
    assert pinfold("install", "codex", home=tmp_path).returncode == 0
    assert [each.name for each in probe_hooks(environ)] == ["codex hooks"]
    assert servers(path, "codex")["files"]["command"] == program
    assert pinfold("uninstall", "codex", home=tmp_path).returncode == 0
    assert servers(path, "codex")["files"]["command"] == "npx"


WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6)


@given(WORDS, st.lists(WORDS, max_size=4), st.sampled_from([None, 1, 2, "\t"]))
def test_any_words_there_and_back(command: str, arguments: list[str], indent: Any) -> None:
    found = ServerList("x.json", (("mcpServers",),))
    entry: dict[str, Any] = {"command": command, "args": arguments} if arguments else {"command": command}
    text = json.dumps({"a": 1, "mcpServers": {"s": entry}}, indent=indent, ensure_ascii=False)
    for server in servers_in(text, found):
        changed, pieces = with_words(text, found.file, server, wrapped_words(server))
        (again,) = servers_in(changed, found)
        assert again.words == server.words and again.options is not None
        assert without_wraps(changed, found, tuple(pieces)) == text
        bare = without_wraps(changed, found)
        assert servers_in(bare, found)[0].words == server.words


@pytest.mark.parametrize("text", ["mcp_servers.x.command = 'a'\n", "[mcp_servers]\nx.command = 'a'\n"])
def test_what_cannot_be_edited_safely_is_left(text: str) -> None:
    """Dotted keys: another dotted key would have to follow."""
    found = ServerList("x.toml", (("mcp_servers",),))
    (server,) = servers_in(text, found)
    with pytest.raises(PolicyError, match="cannot edit this file safely"):
        with_words(text, found.file, server, wrapped_words(server))
