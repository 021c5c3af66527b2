"""Hooks: what a program's answer is worth, with real programs."""

import json
import os
from pathlib import Path

import pytest

from pinfold.model.decision import Decision, Verdict
from pinfold.session import Session
from tests.patience import wait_until
from tests.processes import is_alive

BLOCKED = "Command execution was blocked by a hook"

MANY = "head -c 99999 /dev/zero"
ANSWERS = [
    # a clear answer
    ("""echo '{"permission": "deny", "user_message": "not today"}'""", "ls", Verdict.DENY, "not today"),
    ("""echo '{"permission": "ask"}'""", "ls", Verdict.ASK, "a hook asks for a person"),
    ("""echo '{"permission": "allow"}'""", "ls", Verdict.ALLOW, ""),
    ("""echo '{"permission": "allow", "later_field": 1}'""", "ls", Verdict.ALLOW, ""),
    # no opinion
    ("true", "ls", Verdict.ALLOW, ""),
    ("echo '{}'", "ls", Verdict.ALLOW, ""),
    # an allow lifts no rule
    ("""echo '{"permission": "allow"}'""", "git push", Verdict.DENY, "the deny rule `git push`"),
    ("""echo '{"permission": "allow"}'""", "sudo ls", Verdict.ASK, "more rights"),
    # crash, nonsense, time-out
    ("exit 1", "ls", Verdict.DENY, "exit status 1"),
    ("kill -9 $$", "ls", Verdict.DENY, "signal 9"),
    ("echo out of order >&2; exit 3", "ls", Verdict.DENY, "exit status 3: out of order"),
    ("echo maybe", "ls", Verdict.DENY, "makes no sense"),
    ("""echo '{"permission": "perhaps"}'""", "ls", Verdict.DENY, "makes no sense"),
    ("""echo '{"decision": "allow"}'""", "ls", Verdict.DENY, "has no `permission`"),
    ("""echo '{"permission": "allow"}'; exit 2""", "ls", Verdict.DENY, "exit status 2"),
    ("printf '\\377'", "ls", Verdict.DENY, "makes no sense"),
    # Two answers, the second of which a line may have brought in, and what nobody can read to its end.
    ("""echo '{"permission": "deny", "permission": "allow"}'""", "ls", Verdict.DENY, "twice"),
    ("""echo '{"permission": "allow", "Permission": "deny"}'""", "ls", Verdict.DENY, "twice"),
    ("""echo '{"permission": "allow", "x": {"y": 1, "y": 2}}'""", "ls", Verdict.DENY, "twice"),
    ("""echo '{"permission": "allow"}{"permission": "deny"}'""", "ls", Verdict.DENY, "makes no sense"),
    (
        f"""printf '{{"permission":"allow","x":'; {MANY} | tr '\\0' '['""",
        "ls",
        Verdict.DENY,
        "makes no sense",
    ),
    (
        f"""printf '{{"permission":"allow","x":1'; {MANY} | tr '\\0' 1; echo '}}'""",
        "ls",
        Verdict.DENY,
        "no sense",
    ),
]


def judged(tmp_path: Path, line: str, *scripts: str, timeout: str = "30s") -> Decision:
    hooks = []
    for number, script in enumerate(scripts):
        hook = tmp_path / f"hook{number}"
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)
        hooks.append(str(hook))
    settings = {"commands": {"deny": ["git push"]}, "hooks": {"before_command": hooks, "timeout": timeout}}
    return Session([str(tmp_path)], settings=settings, cwd=str(tmp_path)).check(line)


@pytest.mark.parametrize(("script", "line", "verdict", "message"), ANSWERS)
def test_answer(tmp_path: Path, script: str, line: str, verdict: Verdict, message: str) -> None:
    decision = judged(tmp_path, line, script)
    assert decision.verdict is verdict
    assert message in decision.reasons[0].message


def test_a_denial_says_which_hook(tmp_path: Path) -> None:
    reason = judged(tmp_path, "ls", "exit 1").reasons[0]
    assert reason.message.startswith(BLOCKED)
    assert str(tmp_path / "hook0") in reason.message


def test_deny_wins_over_ask_over_allow(tmp_path: Path) -> None:
    says = [f"""echo '{{"permission": "{word}"}}'""" for word in ("allow", "ask", "deny")]
    assert judged(tmp_path, "ls", *says).verdict is Verdict.DENY
    assert judged(tmp_path, "ls", *says[:2]).verdict is Verdict.ASK


def test_a_hook_is_told_what_cursors_are(tmp_path: Path) -> None:
    judged(tmp_path, "ls 'a b'", f"cat > {tmp_path}/told")
    told = json.loads((tmp_path / "told").read_text())
    assert {"conversation_id", "generation_id", "model", "command", "cwd", "sandbox"} <= set(told)
    assert (told["command"], told["cwd"], told["sandbox"]) == ("ls 'a b'", str(tmp_path), True)


def test_a_missing_hook_is_a_no(tmp_path: Path) -> None:
    settings = {"hooks": {"before_command": [str(tmp_path / "nowhere")]}}
    decision = Session([str(tmp_path)], settings=settings, cwd=str(tmp_path)).check("ls")
    assert decision.verdict is Verdict.DENY
    assert "could not be started" in decision.reasons[0].message


def test_a_hook_is_started_with_nothing_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment of the project is on PATH as a rule, and commands write it."""
    (project := tmp_path / "project").mkdir()
    mark = tmp_path / "mark"
    for name in ("python3", "cat"):
        (project / name).write_text(f"#!/bin/sh\n: > {mark}\n")
        (project / name).chmod(0o755)
    (project / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')\n")
    hook = tmp_path / "hook"
    hook.write_text("#!/usr/bin/env python3\nimport os\nos.system('cat > /dev/null')\nprint('{}')\n")
    hook.chmod(0o755)
    monkeypatch.setenv("PATH", f".:{project}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(project))
    settings = {"hooks": {"before_command": [str(hook)]}}
    decision = Session([str(project)], settings=settings, cwd=str(project)).check("ls")
    assert decision.verdict is Verdict.ALLOW, decision.reasons
    assert not mark.exists()


def test_a_late_hook_is_a_no_and_nothing_of_it_stays(tmp_path: Path) -> None:
    decision = judged(tmp_path, "ls", f"sleep 600 & echo $! > {tmp_path}/pid; wait", timeout="3s")
    assert decision.verdict is Verdict.DENY and "did not answer within 3 s" in decision.reasons[0].message
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize("is_given", [False, True])
def test_the_home_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_given: bool
) -> None:
    """It is the one that the session's own variables name."""
    monkeypatch.setenv("HOME", str(tmp_path / "other" if is_given else tmp_path))
    environ = {**os.environ, "HOME": str(tmp_path)} if is_given else None
    hook = tmp_path / "hook"
    hook.write_text("""#!/bin/sh\necho '{"permission": "ask"}'\n""")
    hook.chmod(0o755)
    settings = {"hooks": {"before_command": ["~/hook"]}}
    session = Session([str(tmp_path)], settings=settings, cwd=str(tmp_path), environ=environ)
    assert session.check("ls").verdict is Verdict.ASK and str(hook) in session.policy.protected


def test_hooks_are_asked_at_once(tmp_path: Path) -> None:
    for_all = f"""cat >/dev/null; touch {tmp_path}/here$$
    until [ $(ls {tmp_path}/here* | wc -l) = 3 ]; do sleep 0.02; done; echo '{{}}'"""
    assert judged(tmp_path, "ls", for_all, for_all, for_all).verdict is Verdict.ALLOW
