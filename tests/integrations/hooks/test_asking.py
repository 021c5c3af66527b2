"""A yes in the agent's dialogue reaches the run, once, and nothing else does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PINFOLD = [sys.executable, "-m", "pinfold"]


def hook(agent: str, payload: object, environ: dict[str, str]) -> Any:
    run = subprocess.run(
        [*PINFOLD, "hook", agent],
        input=payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
        env=environ,
        capture_output=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout or b"{}")


def asked(line: str, home: Path, environ: dict[str, str], **more: object) -> tuple[str, str]:
    payload = {
        "hook_event_name": "PreToolUse",
        "cwd": str(home / "project"),
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": line},
        **more,
    }
    said = hook("claude-code", payload, environ)["hookSpecificOutput"]
    return said["permissionDecision"], said["updatedInput"]["command"]


def shell(line: str, home: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=home / "project",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,  # agents give their commands no terminal
        timeout=60,
    )


@pytest.fixture(autouse=True)
def a_program(home: Path, environ: dict[str, str]) -> None:
    program = home / "project/bin/ship"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho shipped $1\n")
    program.chmod(0o755)
    environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"


def test_what_is_allowed_runs_in_a_pen(home: Path, environ: dict[str, str]) -> None:
    verdict, line = asked("echo $PINFOLD_PEN; echo it\\'s", home, environ)
    assert verdict == "allow"
    run = shell(line, home, environ)
    if "cannot hold the fence" in run.stderr:
        pytest.skip(run.stderr)
    assert (run.stdout, run.returncode) == ("1\nit's\n", 0)


def test_a_yes_is_good_once(home: Path, environ: dict[str, str]) -> None:
    verdict, line = asked("ship it", home, environ)
    assert verdict == "ask"
    run = shell(line, home, environ)
    if "cannot hold the fence" in run.stderr:
        pytest.skip(run.stderr)
    assert run.stdout == "shipped it\n", run.stderr
    again = shell(line, home, environ)
    assert (again.returncode, again.stdout) == (126, "")
    assert "there is nobody to ask" in again.stderr


def test_a_yes_is_for_the_very_line_and_place(home: Path, environ: dict[str, str]) -> None:
    _, line = asked("ship it", home, environ)
    other = line.replace("ship it", "ship it --tag x")
    assert shell(other, home, environ).returncode == 126
    (home / "project/sub").mkdir()
    assert shell(f"cd sub; {line}", home, environ).returncode == 126
    wider = line.replace(" -c ", " --write /opt -c ")
    assert shell(wider, home, environ).returncode == 126


def test_without_anybody_to_ask_there_is_no_ticket(home: Path, environ: dict[str, str]) -> None:
    verdict, line = asked("ship it", home, environ, permission_mode="bypassPermissions")
    assert verdict == "allow"
    run = shell(line, home, environ)
    assert (run.returncode, run.stdout) == (126, "")


def test_an_old_ticket_is_none(home: Path, environ: dict[str, str]) -> None:
    _, line = asked("ship it", home, environ)
    (ticket,) = (home / ".local/state/pinfold/tickets").iterdir()
    os.utime(ticket, (1, 1))
    assert shell(line, home, environ).returncode == 126
    assert not ticket.exists()


def test_a_hook_that_fails_by_itself_blocks(home: Path, environ: dict[str, str]) -> None:
    for arguments in (["hook"], ["hook", "nobody"], ["hook", "codex", "--what"]):
        run = subprocess.run([*PINFOLD, *arguments], input=b"{}", env=environ, capture_output=True)
        assert run.returncode == 2 and run.stderr
    closed = subprocess.run(
        ["bash", "-c", f"{' '.join(PINFOLD)} hook codex <&-"], env=environ, capture_output=True
    )
    assert closed.returncode == 2 and closed.stderr
