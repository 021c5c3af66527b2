"""Every shell row of the corpus, judged in the directory its set-up makes.

The settings are those the corpus assumes: no fence, an allowlist of read-only programs, three deny
rules, `.env` hidden.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pinfold.model.decision import Verdict
from pinfold.session import Session
from tests.corpus.policies import READ_ONLY

HERE = Path(__file__).parent
ROWS = [json.loads(line) for line in (HERE / "bypasses.jsonl").read_text().splitlines()]
SHELL_ROWS = [row for row in ROWS if row["category"] == "shell-policy"]


@pytest.mark.parametrize("row", SHELL_ROWS, ids=[row["id"] for row in SHELL_ROWS])
def test_row(row: dict[str, str], tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    if row.get("setup"):
        subprocess.run(
            ["bash", "-c", row["setup"]],
            cwd=workspace,
            env={**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            check=False,
        )
    decision = Session([str(workspace)], settings=READ_ONLY, cwd=str(workspace)).check(row["input"])
    assert_expected(row, decision.verdict)


def assert_expected(row: dict[str, str], verdict: Verdict) -> None:
    expected = row["expected"]
    if expected.startswith(("allow", "same decision as `cat`")):
        assert verdict is Verdict.ALLOW
    elif expected.startswith(("deny:", "deny (rule", "same decision as rm -rf")):
        assert verdict is Verdict.DENY
    else:
        assert verdict is not Verdict.ALLOW


@pytest.mark.parametrize("line", (HERE / "benign.txt").read_text().splitlines())
def test_benign_line_runs_without_a_question(line: str) -> None:
    text = f"{line}\nhello\nEOF\n" if "<<'EOF'" in line else line
    with Session([str(HERE)], settings={}, cwd=str(HERE)) as session:
        assert session.check(text).verdict is Verdict.ALLOW
