"""From a hook's answer to the run that an agent makes of it: each function runs in a child, as two users."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pinfold.integrations.hooks import answer
from tests.probe_module import probes_of, run

CANNOT = "the sandbox is not available here"


def asked(line: str, agent: str = "claude-code", **more: object) -> tuple[str, str]:
    payload = {
        "hook_event_name": "PreToolUse",
        "cwd": os.getcwd(),
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": line},
        **more,
    }
    reply = answer(agent, json.dumps(payload).encode(), os.environ)
    said: dict[str, Any] = json.loads(reply.stdout)["hookSpecificOutput"]
    return said["permissionDecision"], said["updatedInput"]["command"]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,  # agents give their commands no terminal
        timeout=60,
    )
    if CANNOT in run.stderr:
        print(run.stderr)
        sys.exit(77)
    return run


def prepared() -> None:
    settings = Path.home() / ".config/pinfold/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[commands]\nask = ["ship it"]\n')
    program = Path("bin/ship")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho shipped $1\n")
    program.chmod(0o755)


def what_is_allowed_runs_in_a_pen() -> None:
    verdict, line = asked("echo $PINFOLD_PEN; echo it\\'s; touch ~/x")
    assert verdict == "allow"
    run = shell(line)
    assert run.stdout == "1\nit's\n" and run.returncode == 1, run
    assert not (Path.home() / "x").exists()


def a_plan_changes_nothing() -> None:
    verdict, line = asked("touch x; echo $?", permission_mode="plan")
    assert verdict == "ask"
    assert shell(line).stdout == "1\n"
    assert not Path("x").exists()


def a_yes_is_good_once() -> None:
    prepared()
    verdict, line = asked("ship it")
    assert verdict == "ask"
    run = shell(line)
    assert run.stdout == "shipped it\n", run
    again = shell(line)
    assert (again.returncode, again.stdout) == (126, "")
    assert "no terminal, agent dialog or `pinfold web` page is open to ask" in again.stderr


def a_yes_is_for_the_very_line_and_place() -> None:
    prepared()
    _, line = asked("ship it")
    Path("sub").mkdir()
    for other in (
        line.replace("ship it", "ship it now"),
        f"cd sub; {line}",
        line.replace("claude-code", "codex"),
    ):
        run = shell(other)
        assert (run.returncode, run.stdout) == (126, ""), run
    run = shell(" --write /opt -c ".join(line.rsplit(" -c ", 1)))
    assert run.returncode == 2 and "--write" in run.stderr and not run.stdout, run
    assert shell(line).stdout == "shipped it\n"


def without_anybody_to_ask_there_is_no_ticket() -> None:
    prepared()
    for agent, mode in (
        ("claude-code", "bypassPermissions"),
        ("claude-code", "dontAsk"),
        ("codex", "default"),
    ):
        verdict, line = asked("ship it", agent, permission_mode=mode)
        assert verdict == "allow"
        run = shell(line)
        assert (run.returncode, run.stdout) == (126, ""), run


def a_ticket_whose_answer_was_no_is_gone_with_the_next_turn() -> None:
    prepared()
    tickets = Path.home() / ".local/state/pinfold/tickets"
    turn = {"session_id": "a", "prompt_id": "1"}
    _, line = asked("ship it", **turn)
    asked("echo beside it", **turn)  # of the same turn: the person may not have answered yet
    asked("echo elsewhere", session_id="b", prompt_id="2")
    assert len(os.listdir(tickets)) == 1
    asked("echo on", session_id="a", prompt_id="2")
    assert os.listdir(tickets) == []
    assert shell(line).returncode == 126


def a_ticket_of_another_hour_is_none() -> None:
    prepared()
    for other in (1, time.time() + 60):
        _, line = asked("ship it")
        (ticket,) = (Path.home() / ".local/state/pinfold/tickets").iterdir()
        os.utime(ticket, (other, other))
        assert shell(line).returncode == 126
        assert not ticket.exists()


def a_ticket_that_others_could_have_left_is_none() -> None:
    prepared()
    _, line = asked("ship it")
    (Path.home() / ".local/state/pinfold/tickets").chmod(0o770)
    assert shell(line).returncode == 126


def no_ticket_can_be_made_inside() -> None:
    prepared()
    tickets = Path.home() / ".local/state/pinfold/tickets"
    asked("ship it")
    names = os.listdir(tickets)
    _, look = asked(f"ls -A {tickets}; touch {tickets}/x")
    run = shell(look)
    assert names[0] not in run.stdout and run.returncode != 0
    assert os.listdir(tickets) == names


ASKING = probes_of(globals(), "asked", "shell", "prepared")

if __name__ == "__main__":
    run(globals())
