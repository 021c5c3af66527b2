"""`pinfold settings`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.cli import main
from pinfold.cli.settings import layer_of
from pinfold.settings.defaults import SAFE
from pinfold.settings.keys import TABLE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, a project below it, and none of our variables set."""
    for name in ("XDG_CONFIG_HOME", "PINFOLD_MODE", "PINFOLD_POLICY", "PINFOLD_NETWORK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    os.makedirs(tmp_path / "project/.pinfold")
    os.makedirs(tmp_path / "project/.git")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def test_show(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "s.toml").write_text('mode = "ask_every_time"\n[limits]\nmemory = "1GiB"\n')
    (home / "project/.pinfold/settings.toml").write_text('[commands]\nallow = ["curl"]\ndeny = ["rm"]\n')
    assert main(["settings", "show", "--settings", f"{home}/s.toml"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert rows["mode"] == ["mode", '"ask_every_time"', "user", "~/s.toml:1"]
    assert rows["sandbox.enabled"] == ["sandbox.enabled", "true", "default"]
    assert rows["commands.deny"][-1] == ".pinfold/settings.toml:3"
    assert set(rows) == {key.name for key in TABLE} | {"note:"}
    assert "`curl` in `commands.allow` has no effect" in out
    assert "\x1b" not in out


def test_show_says_of_shipped_lists_how_long_they_are(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody wrote them, and their lines would be wider than any screen; `--json` has them whole."""
    assert main(["settings", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 100
    safe = next(line for line in lines if line.startswith("commands.safe"))
    assert safe.split()[1:] == ["shipped,", str(len(SAFE)), "entries", "default"]
    assert main(["settings", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["commands.safe"]["value"] == list(SAFE)


def test_show_writes_durations_as_a_person_would(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "s.toml").write_text('[approvals]\nwait = "90s"\n')
    assert main(["settings", "show", "--settings", f"{home}/s.toml"]) == 0
    shown = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert (shown["approvals.keep"], shown["approvals.wait"], shown["hooks.timeout"]) == ("30d", "90s", "10s")


def test_show_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "s.toml").write_text('[filesystem]\nwrite = [\n"/a",\n"/b"]\n')
    assert main(["settings", "show", "--json", "--settings", f"{home}/s.toml"]) == 0
    shown = json.loads(capsys.readouterr().out)
    row = shown["settings"]["filesystem.write"]
    assert (row["value"], row["layer"], row["line"]) == (["/a", "/b"], "user", 3)
    assert row["entries"] == [f"{home}/s.toml:3", f"{home}/s.toml:4"]
    assert shown["notices"] == []


def test_cwd_is_where_the_project_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "project/.pinfold/settings.toml").write_text('[commands]\ndeny = ["rm"]\n')
    os.makedirs(home / "project/deep/er")
    os.makedirs(home / "other")
    for directory, count in (("project/deep/er", 1), ("other", 0)):
        assert main(["rules", "list", "--json", "--cwd", f"{home}/{directory}"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == count
    assert main(["settings", "show", "--cwd", f"{home}/none"]) == 2


def test_validate(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "validate"]) == 0
    assert "defaults are in force" in capsys.readouterr().out
    file = home / "s.toml"
    file.write_text('[commands]\ndeny = ["git"]\nallow = ["git status"]\n')
    assert main(["settings", "validate", str(file)]) == 0
    out = capsys.readouterr().out
    assert "`git status` in `commands.allow` never takes effect" in out
    assert "ok: ~/s.toml" in out
    file.write_text("[sandbox]\nauto_alow = true\n")
    assert main(["settings", "validate", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"pinfold: {file}:2: unknown key `sandbox.auto_alow`\n"
        "  2 | auto_alow = true\n"
        "    | ^^^^^^^^^\n"
        "  help: did you mean `auto_allow`?\n"
    )
    assert main(["settings", "validate", f"{home}/none.toml"]) == 2
    (home / "managed.toml").write_text('[admin]\nauto_run = "disabled"')
    assert main(["settings", "validate", f"{home}/managed.toml"]) == 0


def test_validate_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "s.toml").write_text("[sandbox]\nauto_alow = true\n")
    (home / "bytes.toml").write_bytes(b"# a\n# \xff\n")
    (home / "host.toml").write_text("[network]\ndeny = ['a..b']\n")
    table: list[tuple[str, dict[str, object]]] = [
        ("s.toml", {"line": 2, "column": 1, "message": "unknown key `sandbox.auto_alow`"}),
        ("bytes.toml", {"line": 2, "message": "is not UTF-8", "help": "save it as UTF-8"}),
        ("host.toml", {"line": 2, "column": 9}),
        ("none.toml", {"message": "this settings file does not exist", "help": ""}),
    ]
    for name, told in table:
        assert main(["settings", "validate", "--json", f"{home}/{name}"]) == 2
        out, err = capsys.readouterr()
        assert err == ""
        answer = json.loads(out)
        assert answer["valid"] is False
        (error,) = answer["errors"]
        assert error.items() >= {"file": f"{home}/{name}", **told}.items()


def test_validate_tells_of_every_broken_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "project/.pinfold/settings.toml").write_text("x")
    (home / "project/.pinfold/settings.local.toml").write_text("mode = 'y'")
    assert main(["settings", "validate", "--json"]) == 2
    files = [error["file"] for error in json.loads(capsys.readouterr().out)["errors"]]
    assert sorted(os.path.basename(file) for file in files) == ["settings.local.toml", "settings.toml"]
    assert main(["settings", "validate"]) == 2
    assert capsys.readouterr().err.count("pinfold: ") == 2


def test_validate_names_an_empty_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "project/.pinfold/settings.toml").write_text("")
    assert main(["settings", "validate"]) == 0
    assert capsys.readouterr().out == "ok: .pinfold/settings.toml\n"


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_show_fits_the_terminal(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    file = home / "a-rather-long-directory/settings-with-a-long-name.toml"
    file.parent.mkdir()
    hosts = [f"host-{number}.example" for number in range(20)]
    file.write_text(f"[network]\nallow = {hosts}\n")
    assert main(["settings", "show", "--settings", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    row = next(line for line in lines if line.startswith("network.allow"))
    assert '["host-' in row
    assert row.endswith("name.toml:2")


def test_programs_are_shown_all_of_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `pinfold status | grep network.allow`."""
    monkeypatch.delenv("COLUMNS", raising=False)
    hosts = [f"host-{number}.example" for number in range(20)]
    (home / "s.toml").write_text(f"[network]\nallow = {json.dumps(hosts)}\n")
    for verb in (["settings", "show"], ["status"]):
        line = [sys.executable, "-m", "pinfold", *verb, "--settings", f"{home}/s.toml"]
        shown = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout
        assert hosts[-1] in shown and "..." not in shown
        mode = next(line for line in shown.splitlines() if line.startswith("mode "))
        assert len(mode) < 80  # a long value moves nobody else's


def test_a_broken_project_is_an_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "project/.pinfold/settings.toml").write_text("[commands]\ndeny = ['rm'")
    for verb in (["settings", "show"], ["settings", "validate"], ["rules", "list"], ["exclude", "list"]):
        assert main(verb) == 2
    assert "unclosed array" in capsys.readouterr().err


EXAMPLES = [
    ("deny", "git push --force", "match", "git push origin main --force", 0),
    ("deny", "git push --force", "match", "env git push origin", 2),
    ("deny", "git push --force", "not_match", "git push origin", 0),
    ("deny", "rm", "not_match", "ls; rm x", 2),
    ("allow", "npm test", "match", "npm test && npm test -- -x", 0),
    ("allow", "npm test", "match", "npm test && ls", 2),
    ("allow", "npm test", "not_match", "npm test; curl x | sh", 0),
]


@pytest.mark.parametrize(("decision", "command", "kind", "line", "code"), EXAMPLES)
def test_examples_of_rules(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    decision: str,
    command: str,
    kind: str,
    line: str,
    code: int,
) -> None:
    file = home / "s.toml"
    file.write_text(f"[[rule]]\ndecision = '{decision}'\ncommand = '{command}'\n{kind} = ['{line}']\n")
    assert main(["settings", "validate", str(file)]) == code
    if code:
        assert f"{file}:4: the rule `{command}`" in capsys.readouterr().err


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "pinfold settings"


def test_layer_of() -> None:
    table = [
        ("/etc/pinfold/managed.toml", "managed"),
        ("/etc/pinfold/managed.d/10.toml", "managed"),
        ("/p/.pinfold/settings.toml", "project"),
        ("/p/.pinfold/settings.local.toml", "project-local"),
        ("/home/u/.config/pinfold/settings.toml", "user"),
    ]
    for path, layer in table:
        assert layer_of(path) == layer
