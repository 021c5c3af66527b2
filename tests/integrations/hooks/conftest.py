"""A home with a project and settings in it, for hooks to answer about."""

import os
from pathlib import Path

import pytest

SETTINGS = """
[commands]
deny = ["git push"]
ask = ["npm publish", "ship it"]
[mcp]
allow = ["github:search_issues", "files:*", "web_search"]
[network]
deny = ["evil.example"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    project = tmp_path / "home/project"
    (project / ".git/hooks").mkdir(parents=True)
    (tmp_path / "home/.ssh").mkdir()
    settings = tmp_path / "home/.config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    return tmp_path / "home"


@pytest.fixture
def environ(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PINFOLD_PEN", "IS_SANDBOX", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return {"HOME": str(home), "PATH": os.environ["PATH"], "PINFOLD_HOOK_SERVICE": "0"}
