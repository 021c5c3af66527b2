"""What holds of answers that an earlier version remembered: each function runs in a child, as root and as
another user."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any

import msgspec

import pinfold
from pinfold.approval.store import Store
from pinfold.state.directory import approvals_file
from tests.probe_module import probes_of, run

VERSION_1 = Path(__file__).parent.parent.parent / "approval/version_1.json"
"""Written by version 1, in this project and this home."""
PROJECT, HOME = "/srv/pinfold-v1/home/project", "/srv/pinfold-v1/home"
CALLS = (
    "touch {home}/out/new",
    "ln -s /etc/hosts {home}/out/link",
    "chmod 644 {home}/out/old",
    "mv {home}/out/a {home}/out/b",
    "mkdir {home}/out/dir",
    "touch .bashrc",
    "mkdir -p .husky",
)
UNFENCED: dict[str, Any] = {"sandbox": {"enabled": False}, "commands": {"allow": ["true"]}}
LINES = ("git status", "tool", "$X", "echo x > .bashrc", "rm g")


def _prepare() -> str:
    """The files that version 1 found, and the home."""
    home = os.environ["HOME"]
    for place in (".", f"{home}/out"):
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place, exist_ok=True)
    for path in ("g", f"{home}/out/old", f"{home}/out/a"):
        Path(path).write_text("x")
    os.chmod(f"{home}/out/old", 0o600)
    os.makedirs("bin")
    Path("bin/tool").write_text("#!/bin/sh\n")
    os.chmod("bin/tool", 0o755)
    os.environ["PATH"] = f"{os.getcwd()}/bin:/usr/local/bin:/usr/bin:/bin"
    os.makedirs(".git/objects")
    os.makedirs(".git/refs")
    Path(".git/HEAD").write_text("ref: refs/heads/main\n")
    Path(".git/config").write_text("[core]\n\tfsmonitor = /x\n")
    return home


def _settle(
    answer: pinfold.Answer | pinfold.Reply, settings: dict[str, Any], lines: Sequence[str]
) -> list[str]:
    """Runs the lines where this is answered; what was asked about."""
    asked: list[str] = []

    def a_person(question: pinfold.PermissionNeeded) -> pinfold.Answer | pinfold.Reply:
        asked.append(question.command)
        return answer

    home = _prepare()
    with pinfold.Session([os.getcwd()], settings=settings, approvers=[a_person]) as session:
        for line in lines:
            session.run(line.format(home=home))
    return asked


def _take_back_to_version_1(file: Path) -> None:
    """Replaces the answers by those of version 1, moved to this project, home, user and settings."""
    text = VERSION_1.read_text().replace(PROJECT, os.getcwd()).replace(HOME, os.environ["HOME"])
    old = msgspec.json.decode(text)["answers"]
    for now in (each["subject"] for each in msgspec.json.decode(file.read_bytes())["answers"]):
        for then in (each["subject"] for each in old):
            if (then["command"], then["sandboxed"]) == (now["command"], now["sandboxed"]):
                then.update({key: now[key] for key in ("policy", "fingerprint", "user")})
    # The file keeps counting after its answers expired, and on a machine whose clock is behind.
    old = [{**each, "made": time(), "expires": None} for each in old]
    file.write_bytes(msgspec.json.encode({"version": 1, "answers": old}))


def answers_of_version_1_go_on_to_count() -> None:
    file = Path(approvals_file(os.environ))
    for settings, lines in (({}, CALLS), (UNFENCED, LINES)):
        file.unlink(missing_ok=True)
        asked = _settle(pinfold.Answer.ALWAYS, settings, lines)
        assert len(asked) == len(lines), asked
        _take_back_to_version_1(file)
        asked = _settle(pinfold.Answer.NO, settings, lines)
        assert asked == [], asked
        answers = len(Store(str(file)).answers())
        assert Store(str(file)).remove(["none"]) and len(Store(str(file)).answers()) == answers
        assert msgspec.json.decode(file.read_bytes())["version"] == 2, "what is written next is version 2"


def an_answer_for_any_command_counts_for_another_program() -> None:
    answer = pinfold.Reply(pinfold.Answer.ALWAYS, pinfold.Reach.TARGET)
    assert _settle(answer, {}, ["touch {home}/out/new"])
    assert _settle(pinfold.Answer.NO, {}, ["cp g {home}/out/new"]) == []
    assert _settle(pinfold.Answer.NO, {}, ["cp g {home}/out/newer"])


REMEMBERED = probes_of(globals())

if __name__ == "__main__":
    run(globals())
