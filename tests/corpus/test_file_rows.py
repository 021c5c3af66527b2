"""Every row of the corpus that is about file tools: `file_tool.use(...)`, with a shell's work before it."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

import pinfold
from pinfold.model.errors import FileRefused

HERE = Path(__file__).parent
ROWS = [json.loads(line) for line in (HERE / "bypasses.jsonl").read_text().splitlines()]
ABOUT_FILES = [row for row in ROWS if "file_tool." in row["input"]]


@pytest.mark.parametrize("row", ABOUT_FILES, ids=[row["id"] for row in ABOUT_FILES])
def test_file_row(row: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    before, _, use = row["input"].rpartition("file_tool.")
    subprocess.run(["sh", "-c", before.rstrip("; ") or "true"], cwd=work, check=True)
    name, _, arguments = use.partition("(")
    values = ast.literal_eval(f"({arguments.removesuffix(')')},)")
    assert row["expected"].startswith("refuse")
    with pinfold.Session([str(work)], cwd=str(work)) as session, pytest.raises(FileRefused):
        getattr(session.files, name)(*values)
    assert not (tmp_path / "canary").exists()


def test_there_are_rows() -> None:
    assert len(ABOUT_FILES) >= 5
