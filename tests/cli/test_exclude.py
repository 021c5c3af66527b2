"""`pinfold exclude`."""

import json
import os
from pathlib import Path

import pytest

from pinfold.cli import main


def test_add_list_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    os.mkdir(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    file = tmp_path / "pinfold/settings.toml"
    assert main(["exclude", "add", "docker compose", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["changed"] is True
    assert answer["file"] == str(file)
    assert main(["exclude", "list"]) == 0
    assert capsys.readouterr().out == f"docker compose  user  {file}:2\n"
    assert main(["exclude", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["command"] == "docker compose"
    assert main(["exclude", "remove", "docker compose"]) == 0
    assert file.read_text() == "[sandbox]\nexcluded_commands = []\n"
    capsys.readouterr()
    assert main(["exclude", "remove", "docker compose"]) == 1
    assert "is not in `sandbox.excluded_commands`" in capsys.readouterr().err
    main(["exclude", "add", "docker:*"])
    assert main(["exclude", "remove", "docker"]) == 0
    capsys.readouterr()
    assert main(["exclude", "list"]) == 0
    assert capsys.readouterr().out == "there are no exclusions: every command runs in the sandbox\n"
