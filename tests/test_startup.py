"""What a cold start may not pay for. Figures are `bench/decide.py`'s and `bench/peers.py`'s business."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.decide import NEVER_IMPORTED, PROGRAM

import pinfold


def imported(*words: str) -> set[str]:
    """Every module that the program has loaded when it ends."""
    run = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, *words], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


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
    assert not set(NEVER_IMPORTED) & imported("check", line)


def test_run_imports_nothing_heavy() -> None:
    not_in_the_line = {"pinfold.shell.known_output", "pinfold.shell.forwarding_functions"}
    assert not {*NEVER_IMPORTED, *not_in_the_line} & imported("run", "--", "true")


def test_what_had_a_stand_in_is_itself_to_whoever_asks_later() -> None:
    code = """
from pinfold.lazy_imports import load_light
load_light()
import argparse, datetime, decimal, gettext, msgspec, uuid
assert uuid.uuid4() and decimal.Decimal(1) and datetime.datetime.now() and gettext.translation
assert msgspec.json.schema(int) == {"type": "integer"}
assert msgspec.json.decode(b'"2026-01-01"', type=datetime.date) == datetime.date(2026, 1, 1)
from pinfold.integrations.tools import TOOLS
assert all(tool.schema["properties"] for tool in TOOLS.values())
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
