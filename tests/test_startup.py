"""What a cold start may not pay for. Figures are `bench/decide.py`'s business."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.decide import NEVER_IMPORTED

import pinfold


@pytest.mark.parametrize("tool", ["Bash", "TodoWrite"])
def test_a_hook_imports_nothing_heavy(tool: str, tmp_path: Path) -> None:
    payload = {"hook_event_name": "PreToolUse", "cwd": str(tmp_path), "tool_name": tool}
    data = json.dumps({**payload, "tool_input": {"command": "cd src && npm test"}})
    program = Path(pinfold.__file__).parent / "integrations/hooks/start.py"
    code = (
        "import os, sys; os._exit = lambda code: print('\\n', code, *sys.modules)\n"
        f"exec({program.read_text()!r}, {{'__name__': '__main__', '__file__': {str(program)!r}}})"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, "claude-code"],
        input=data,
        env={"HOME": str(tmp_path), "PINFOLD_HOOK_SERVICE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    status, *loaded = run.stdout.splitlines()[-1].split()
    assert status == "0"
    assert not {*NEVER_IMPORTED, "argparse", "hashlib", "json", "sqlite3", "difflib"} & set(loaded)
    assert ("pinfold.session.judge" in loaded) == (tool == "Bash")


@pytest.mark.parametrize("line", ["ls", "cd src && npm test", 'for f in *.py; do echo "$f"; done'])
def test_check_imports_nothing_heavy(line: str) -> None:
    code = "import sys; from pinfold.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-I", "-c", code, "check", line], capture_output=True, text=True, check=True
    )
    assert not set(NEVER_IMPORTED) & set(run.stdout.split())
