"""`pinfold rules`."""

import json
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from pinfold.cli import main

TOP = Path(__file__).parent.parent.parent


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's settings file, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/config")
    monkeypatch.setenv("HOME", str(tmp_path))
    os.mkdir(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "config/pinfold/settings.toml"


def test_add_creates_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "add", "allow", "npm test"]) == 0
    assert file.read_text() == '[commands]\nallow = ["npm test"]\n'
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().out == f"`npm test` added to `commands.allow` of {file}\n"


def test_add_keeps_everything_else(file: Path) -> None:
    file.parent.mkdir(parents=True)
    text = "# mine\nmode='use_allowlist'   # odd spacing\n\n[commands]\nallow = [\n    'a', # first\n]\n# end"
    file.write_text(text)
    file.chmod(0o640)
    assert main(["rules", "add", "allow", "b"]) == 0
    assert file.read_text() == text.replace("# first\n", '# first\n    "b",\n')
    assert file.stat().st_mode & 0o777 == 0o640
    assert main(["rules", "remove", "allow", "b"]) == 0
    assert file.read_text() == text


def test_twice_is_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["rules", "add", "deny", "git push", "--reason", "ask me first"]) == 0
    assert "already in" in capsys.readouterr().out
    assert main(["rules", "add", "deny", "git push"]) == 0
    assert file.read_text().count("git push") == 1
    assert main(["rules", "remove", "deny", "git push"]) == 0
    assert main(["rules", "remove", "deny", "git push"]) == 1
    assert "is not in" in capsys.readouterr().err
    assert "git push" not in file.read_text()


def test_list(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "add", "deny", "git push", "--reason", "no\x1b[2J"])
    main(["rules", "add", "allow", "npm test"])
    capsys.readouterr()
    assert main(["rules", "list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "deny   git push  user  ~/config/pinfold/settings.toml:3  # no\\x1b[2J",
        "allow  npm test  user  ~/config/pinfold/settings.toml:7",
    ]
    assert main(["rules", "list", "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)
    assert rules[1] == {
        "decision": "allow",
        "command": "npm test",
        "reason": "",
        "layer": "user",
        "file": str(file),
        "line": 7,
    }


def test_what_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir(parents=True)
    table = [
        ("", "a | sh", "is not a rule"),
        ("", "npm\u200b test", "contains an invisible character"),
        ("[commands]\nallow = [", "npm test", "invalid value"),
        ("[commands]\nalow = []", "npm test", "unknown key"),
    ]
    for text, command, message in table:
        file.write_text(text)
        assert main(["rules", "add", "allow", command]) == 2
        assert message in capsys.readouterr().err
        assert file.read_text() == text


def test_a_rule_without_effect_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "add", "deny", "git"])
    capsys.readouterr()
    assert main(["rules", "add", "allow", "git status"]) == 0
    assert "never takes effect" in capsys.readouterr().out


def test_settings_flag_and_links(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    (tmp_path / "link.toml").symlink_to(real)
    assert main(["rules", "add", "ask", "rm", "--settings", f"{tmp_path}/link.toml"]) == 0
    assert real.read_text() == '[commands]\nask = ["rm"]\n'
    assert not file.exists()


def test_what_is_not_there_to_remove(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "add", "deny", "git push"])
    (file.parents[2] / "project/.pinfold").mkdir()
    (file.parents[2] / "project/.pinfold/settings.toml").write_text("[commands]\ndeny = ['rm']\n")
    table = [
        ("deny", "git psuh", "did you mean `git push`?"),
        ("deny", "rm", "`rm` is in `commands.deny` of the project settings (.pinfold/settings.toml:2)"),
        ("allow", "git push:*", "`git push` is in `commands.deny` of the user settings"),
        ("ask", "quite another", ""),
    ]
    for decision, command, hint in table:
        capsys.readouterr()
        assert main(["rules", "remove", decision, command]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"`{command}` is not in `commands.{decision}` of {file}\n")
        assert hint in err
        assert err.count("\n") == (2 if hint else 1)
    assert main(["rules", "remove", "deny", "rm", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["changed"] is False
    assert "of the project settings" in answer["notices"][0]


def test_two_spellings_are_one_rule(file: Path) -> None:
    main(["rules", "add", "deny", "docker:*"])
    main(["rules", "add", "deny", "docker"])
    assert file.read_text().count("docker") == 1
    assert main(["rules", "remove", "deny", "docker"]) == 0
    assert "docker" not in file.read_text()
    main(["rules", "add", "ask", "docker", "--reason", "mine"])
    assert main(["rules", "remove", "ask", "docker *"]) == 0
    assert "docker" not in file.read_text()


def test_a_reason_that_is_not_kept_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "add", "deny", "git push"])
    for reason, told in (("new", True), ("", False)):
        capsys.readouterr()
        assert main(["rules", "add", "deny", "git push", "--reason", reason]) == 0
        assert ("keeps its reason" in capsys.readouterr().out) is told
    assert "new" not in file.read_text()


def test_an_argument_that_is_no_text_is_blamed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        (["add", "deny", "rm \udcff"], "pinfold: COMMAND `rm \\udcff`: is not UTF-8\n"),
        (["remove", "deny", "\udcff"], "pinfold: COMMAND `\\udcff`: is not UTF-8\n"),
        (["add", "deny", "rm", "--reason", "\udcff"], "pinfold: --reason `\\udcff`: is not UTF-8\n"),
    ]
    for arguments, told in table:
        assert main(["rules", *arguments]) == 2
        assert capsys.readouterr().err == told
    assert not file.exists()


def test_no_rules(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "list"]) == 0
    assert capsys.readouterr().out.startswith("there are no rules")
    assert main(["rules", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("verb", ["rules", "exclude", "approvals"])
def test_that_there_are_none_is_said_within_the_terminal(verb: str, file: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, 40))
        subprocess.run([sys.executable, "-m", "pinfold", verb, "list"], stdout=theirs, check=True, timeout=30)
        lines = os.read(ours, 1000).decode().splitlines()
    finally:
        os.close(ours)
        os.close(theirs)
    assert len(lines) > 1 and max(map(len, lines)) < 40, lines


def test_the_remedy_of_a_denial_works_when_pasted(file: Path, tmp_path: Path) -> None:
    """In the usual file, and in another, whose path has to be quoted."""
    environ = {**os.environ, "PATH": f"{TOP}:{os.environ['PATH']}"}
    environ.pop("XDG_CONFIG_HOME")
    usual, other = tmp_path / ".config/pinfold/settings.toml", tmp_path / "it's mine.toml"
    for path, options in ((usual, []), (other, ["--settings", str(other)])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[commands]\ndeny = ['git push']\n")
        asked = ["pinfold", "check", "--json", *options, "git push"]
        told = subprocess.run(asked, env=environ, capture_output=True, text=True, check=False)
        (reason,) = json.loads(told.stdout)["reasons"]
        assert reason["step"] == "denied" and ("--settings" in reason["remedy"]) is bool(options)
        subprocess.run(["bash", "-c", reason["remedy"]], env=environ, check=True, capture_output=True)
        told = subprocess.run(asked, env=environ, capture_output=True, text=True, check=False)
        assert json.loads(told.stdout)["decision"] == "allow"
