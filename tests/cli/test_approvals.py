"""`pinfold approvals`: what is remembered is shown, and can be taken back."""

import json
import os
from pathlib import Path

import pytest

from pinfold import Answer, Session
from pinfold.cli import main
from pinfold.model.permission import Capability, PermissionNeeded, Reach, Reply
from pinfold.state.directory import approvals_file
from tests.approval.questions import DECISION, EVERY, Person


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def remember(answer: Answer, reach: Reach = Reach.COMMAND, command: str = "curl x", **given: object) -> None:
    with Session([os.getcwd()], approvers=[Person(Reply(answer, reach))]) as session:
        ask(session, command, **given)


def ask(session: Session, command: str = "curl x", **given: object) -> None:
    session.desk.ask(
        PermissionNeeded(
            "1",
            session.id,
            **{"capability": Capability.CONNECT, "host": "a.example", "port": 443, **given},  # type: ignore[arg-type]
            command=command,
            cwd=os.getcwd(),
            decision=DECISION,
            choices=EVERY,
        )
    )


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["approvals", "list", "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_nothing_is_remembered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approvals", "list"]) == 0
    assert "no answers" in capsys.readouterr().out and not listed(capsys)


def test_the_table_says_what_holds_where(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(Answer.ALWAYS)
    remember(Answer.SESSION, Reach.TARGET, host="b.example")
    remember(Answer.ALWAYS, Reach.DIRECTORY, capability=Capability.WRITE, path="/d/e/f", directory="/d/e")
    remember(Answer.ALWAYS, capability=Capability.WRITE, path="/d/new", operation="mkdir", command="make")
    remember(Answer.ALWAYS, command="echo \x1b[31m[bold]x", capability=Capability.RUN)
    assert main(["approvals", "list"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "`curl x` may connect to a.example:443" in out and "any command may connect" in out
    assert "any command may change what is in /d/e" in out
    assert "`make` may make the directory /d/new" in out
    assert r"run `echo \x1b[31m[bold]x`" in out and "in force" in out and "stale" not in out


def test_a_sessions_answer_is_in_force_while_it_lasts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    person = Person(Reply(Answer.SESSION))
    with Session([os.getcwd()], approvers=[person]) as session:
        _ = session.ledger  # whatever is run, or granted, is written down in it
        ask(session)
        assert listed(capsys)[0]["state"] == "in force"
    assert listed(capsys)[0]["state"] == "session ended"
    assert main(["approvals", "list"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"the answer applies again after `Session(resume='{session.id}')`" in out
    with Session(resume=session.id, approvers=[person]) as again:
        _ = again.ledger
        ask(again)
        assert listed(capsys)[0]["state"] == "in force" and len(person.asked) == 1
    remember(Answer.ALWAYS)
    assert [each["state"] for each in listed(capsys)] == ["session ended", "in force"]


def test_what_stood_on_other_settings_is_stale(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(Answer.ALWAYS)
    (project.parent / "config/pinfold").mkdir(parents=True)
    (project.parent / "config/pinfold/settings.toml").write_text('[commands]\nallow = ["npm test"]\n')
    assert listed(capsys)[0]["state"] == "in force"
    (project.parent / "config/pinfold/settings.toml").write_text('[network]\ndeny = ["b.example"]\n')
    assert listed(capsys)[0]["state"] == "stale"
    assert main(["approvals", "list"]) == 0 and "asks again" in capsys.readouterr().out
    os.chdir("/")
    project.rmdir()
    assert listed(capsys)[0]["state"] == "no project"


def test_one_is_revoked_or_all(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in "abc":
        remember(Answer.ALWAYS, command=command)
    first = str(listed(capsys)[0]["id"])
    assert main(["approvals", "revoke", first]) == 0
    assert [each["command"] for each in listed(capsys)] == ["b", "c"]
    assert main(["approvals", "revoke", first]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"pinfold: there is no remembered answer `{first}`\n")
    second = str(listed(capsys)[0]["id"])
    assert main(["approvals", "revoke", first, second]) == 1 and capsys.readouterr().out == "1 revoked\n"
    remember(Answer.ALWAYS, command="d")
    assert main(["approvals", "revoke", "--all", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["revoked"]) == 2
    assert not listed(capsys)


@pytest.mark.parametrize("arguments", [["revoke"], ["revoke", "--all", "x"]])
def test_what_is_to_be_revoked_must_be_said(
    project: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["approvals", *arguments]) == 2 and capsys.readouterr().err.count("\n") == 1


def test_a_damaged_file_is_one_line_and_all_mends_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(Answer.ALWAYS)
    Path(approvals_file(os.environ)).write_text("{")
    for action in (["list"], ["revoke", "x"]):
        assert main(["approvals", *action]) == 125
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "revoke --all" in said
    assert main(["approvals", "revoke", "--all"]) == 0
    assert not listed(capsys)
