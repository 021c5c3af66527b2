"""What comes into being while a session lasts is held, without a command that asks."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.probe_runner import USERS, run_at_home

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import Found, StartRequest
from pinfold.sandbox.linux.host.backend import LinuxBackend
from pinfold.workspace import watcher
from pinfold.workspace.scan import WorkspaceScanner
from pinfold.workspace.watcher import WorkspaceWatcher

POLICY = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, hidden=(".env",))


def test_a_change_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SECONDS", 0.01)
    told: list[Found] = []
    heard = threading.Event()

    def changed(policy: SandboxPolicy, found: Found) -> None:
        assert policy == POLICY
        told.append(found)
        heard.set()

    top = str(tmp_path.resolve())
    watch = WorkspaceWatcher(WorkspaceScanner([top], "/nowhere"), changed)
    assert watch(POLICY).hidden == ()
    (tmp_path / ".env").write_text("")
    assert heard.wait(PATIENCE)
    watch.close()
    assert [found.hidden for found in told] == [(f"{top}/.env",)]


def test_what_cannot_be_seen_for_one_policy_is_not_made_up_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands of the first go on, and what they must not see may be there by now."""
    monkeypatch.setattr(watcher, "SECONDS", 1e9)
    other = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
    blind: list[SandboxPolicy] = []

    def survey(policy: SandboxPolicy) -> Found:
        if policy in blind:
            raise OSError("the disk is gone")
        return Found()

    watch = WorkspaceWatcher(survey, lambda _policy, _found: None)
    try:
        watch(POLICY)
        blind.append(POLICY)
        watch.trouble = "the last round failed"
        watch(other)
        with pytest.raises(ConfinementError, match="the disk is gone"):
            watch.require_sight()
        blind.clear()
        watch.require_sight()
    finally:
        watch.close()


def what_the_host_makes_is_held_in_a_running_pen() -> None:
    watcher.SECONDS = 0.02
    work = os.getcwd()
    backend = LinuxBackend()
    holding: list[WorkspaceWatcher] = []
    survey = WorkspaceWatcher(
        WorkspaceScanner([work], os.environ["HOME"]), lambda policy, found: session.hold(policy, found)
    )
    holding.append(survey)
    session = backend.open_session([work], survey)
    line = """echo on; while test ! -e sub/.env; do sleep 0.01; done
    while test -s sub/.env || echo x 2>/dev/null > sub/.envrc; do sleep 0.01; done; echo held"""
    command = session.start(StartRequest(line, POLICY, work, timeout=30))
    events = command.events()
    next(events)
    os.mkdir("sub")
    for name in ("sub/.envrc", "sub/.env"):
        with open(name, "w") as file:
            file.write("secret")
    began = time.monotonic()
    text = b"".join(getattr(event, "data", b"") for event in events)
    print(f"held after {(time.monotonic() - began) * 1000:.0f} ms")
    assert text.endswith(b"held\n"), text
    assert session.run(StartRequest("cat sub/.env", POLICY, work)).stdout == b""
    survey.close()
    session.close()
    backend.close()


@pytest.mark.parametrize("user", USERS)
def test_what_the_host_makes_is_held_in_a_running_pen(user: str) -> None:
    run_at_home(user, "what_the_host_makes_is_held_in_a_running_pen", "tests.workspace.test_watcher")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
