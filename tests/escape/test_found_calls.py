"""What a call brings beside its line, so that it did something else than was judged; found by attacks."""

import os
from pathlib import Path
from typing import Any

import pytest

from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.session import Session

UNFENCED: dict[str, Any] = {"sandbox": {"enabled": False}, "commands": {"allow": ["git status"]}}
EVIL = "#!/bin/sh\ntouch {}/evil\n"


class Asked:
    """Nobody who says yes, and who keeps what was asked."""

    name = "nobody"

    def __init__(self) -> None:
        self.questions: list[PermissionNeeded] = []

    def __call__(self, question: PermissionNeeded) -> Answer:
        self.questions.append(question)
        return Answer.NO


def opened(tmp_path: Path, asked: Asked, settings: dict[str, Any]) -> Session:
    (tmp_path / "project").mkdir(exist_ok=True)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    return Session([tmp_path / "project"], settings=settings, environ=environ, approvers=[asked])


@pytest.mark.parametrize("command", ["git status", ["git", "status"], "true && git status"])
@pytest.mark.parametrize(
    "given",
    [
        {"PATH": "EVIL:/usr/bin:/bin"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "EVIL/git"},
        {"LD_PRELOAD": "EVIL/x.so"},
        {"GIT_DIR": "EVIL"},
        {"BASH_ENV": "EVIL/git"},
        {"BASH_FUNC_git%%": "() { EVIL/git; }"},
        {"GIT_EXTERNAL_DIFF": "EVIL/git", "PADDING": "x" * 20_000},
    ],
)
def test_a_variable_beside_an_allowed_line_is_asked_about_outside_of_the_fence(
    command: str | list[str], given: dict[str, str], tmp_path: Path
) -> None:
    asked, evil = Asked(), tmp_path / "project/bin"
    with opened(tmp_path, asked, UNFENCED) as session:
        evil.mkdir()
        (evil / "git").write_text(EVIL.format(tmp_path))
        (evil / "git").chmod(0o755)
        environment = {name: value.replace("EVIL", str(evil)) for name, value in given.items()}
        result = session.run(command, environment={**session.environ, **environment})
        assert not result.ran and len(asked.questions) == 1
        assert not (tmp_path / "evil").exists()
        if "PADDING" not in given:
            assert all(name in asked.questions[0].command for name in given)


def test_what_changes_nothing_is_not_asked_about(tmp_path: Path) -> None:
    asked = Asked()
    with opened(tmp_path, asked, UNFENCED) as session:
        harmless = {"CI": "1", "NO_COLOR": "1", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
        for environment in (dict(session.environ), {**session.environ, **harmless}):
            assert session.run("git status", environment=environment).ran
        assert not asked.questions


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("git st", {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "alias.st", "GIT_CONFIG_VALUE_0": "push"}),
        ("git commit", {"GIT_EDITOR": "git push"}),
        ("ls", {"BASH_FUNC_ls%%": "() { git push; }"}),
        ("git commit", {"GIT_EDITOR": "git push", "PADDING": "x" * 20_000}),
    ],
)
def test_a_deny_rule_is_not_slipped_past_by_a_variable(
    line: str, given: dict[str, str], tmp_path: Path
) -> None:
    with opened(tmp_path, Asked(), {"commands": {"deny": ["git push"]}}) as session:
        assert not session.run(line, environment={**session.environ, **given}).ran


def test_a_question_does_not_tell_what_is_secret(tmp_path: Path) -> None:
    asked = Asked()
    with opened(tmp_path, asked, UNFENCED) as session:
        given = {"GH_TOKEN": "hush", "X_API_KEY": "hush", "PAGER": "less"}
        assert not session.run("git status", environment={**session.environ, **given}).ran
    (question,) = asked.questions
    assert "hush" not in question.command and "GH_TOKEN" in question.command and "less" in question.command


@pytest.mark.parametrize("name", ["RESTIC_PASSWORD_COMMAND", "CARGO_CREDENTIAL_ALIAS_X", "MY_SECRET_CMD"])
def test_a_program_is_no_secret_whatever_its_variable_is_called(name: str, tmp_path: Path) -> None:
    asked = Asked()
    with opened(tmp_path, asked, {"commands": {"deny": ["git push"]}}) as session:
        assert not session.run("restic backup", environment={**session.environ, name: "git push"}).ran
    assert not asked.questions or "git push" in asked.questions[0].command


@pytest.mark.parametrize(
    "name", ["CARGO_REGISTRY_CREDENTIAL_PROVIDER", "AWS_SHARED_CREDENTIALS_FILE", "X_TOKEN"]
)
def test_a_yes_for_a_variable_holds_for_its_value_alone(name: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def yes(question: PermissionNeeded) -> Answer:
        asked.append(question.command)
        return Answer.SESSION

    (tmp_path / "project").mkdir()
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with Session([tmp_path / "project"], settings=UNFENCED, environ=environ, approvers=[yes]) as session:
        for value in ("good", "good", "evil"):
            assert session.run("true x", environment={**environ, name: value}).ran
    assert len(asked) == len(set(asked)) == 2


def test_hooks_are_told_the_variables_of_a_call(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat > {tmp_path}/told\necho '{{}}'\n")
    hook.chmod(0o755)
    with opened(tmp_path, Asked(), {"hooks": {"before_command": [[str(hook)]]}}) as session:
        session.run("true", environment={**session.environ, "LD_PRELOAD": "/evil.so"})
    assert "LD_PRELOAD=/evil.so" in (tmp_path / "told").read_text()
