"""Judging ends in time: a late answer is a no, and what a project may bring is bounded."""

from pathlib import Path
from typing import Any

import pytest

from pinfold.files.held_dirs import LONGEST_GLOB, MOST_PARTS
from pinfold.model.deadline import Deadline
from pinfold.model.decision import Verdict
from pinfold.model.errors import FileRefused, PolicyError
from pinfold.policy.ignore import MOST_PATTERNS
from pinfold.session import Session
from pinfold.settings.parse_layer import MOST_OF_A_PROJECT
from tests.policy.world import Paper, judged

LINE = "x " + "; x ".join(f"'a{number} push; git b'" for number in range(300))


def session(project: Path, settings: dict[str, Any] | None = None) -> Session:
    return Session([str(project)], settings=settings, cwd=str(project))


def rules(count: int) -> str:
    return "[commands]\ndeny = [" + ", ".join(f'"git a{number}"' for number in range(count)) + "]\n"


@pytest.mark.parametrize("mode", ["use_allowlist", "run_everything"])
def test_late_answers_are_no(mode: str, tmp_path: Path) -> None:
    """Whatever the settings would have said."""
    settings = {"mode": mode, "limits": {"answer": "1ms"}, "commands": {"allow": ["x"]}}
    with session(tmp_path, settings) as judged:
        decision = judged.check(LINE)
    assert decision.verdict is Verdict.DENY
    assert decision.reasons[0].step == "late"
    assert "limits.answer" in decision.reasons[0].remedy


@pytest.mark.slow
def test_late_is_found_while_rules_are_compared(tmp_path: Path) -> None:
    """However many rules of one program a user has, the answer is there."""
    settings = {
        "limits": {"answer": "200ms"},
        "commands": {"deny": [f"git a{number}" for number in range(20_000)]},
    }
    with session(tmp_path, settings) as judged:
        assert judged.check(LINE).verdict is not Verdict.ALLOW


def test_a_late_answer_is_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('[limits]\nanswer = "1ms"\n')
    with Session([str(tmp_path)], settings=str(tmp_path / "settings.toml"), cwd=str(tmp_path)) as judged:
        assert judged.check(LINE).verdict is Verdict.DENY
        (tmp_path / "settings.toml").write_text('[limits]\nanswer = "1m"\n')
        assert judged.check(LINE).verdict is Verdict.ALLOW


def test_what_a_project_brings_is_bounded(tmp_path: Path) -> None:
    own = tmp_path / ".pinfold"
    own.mkdir()
    (own / "settings.toml").write_text(rules(MOST_OF_A_PROJECT))
    with session(tmp_path) as judged:
        assert judged.check("git a7").verdict is Verdict.DENY
        assert judged.check("ls").verdict is Verdict.ALLOW
    (own / "settings.toml").write_text(rules(MOST_OF_A_PROJECT + 1))
    with pytest.raises(PolicyError, match=r"1,000 entries"):
        session(tmp_path)


def test_ignore_patterns_are_bounded(tmp_path: Path) -> None:
    ignored = tmp_path / ".pinfoldignore"
    ignored.write_text("".join(f"*a{number}*\n" for number in range(MOST_PATTERNS)))
    with session(tmp_path) as judged:
        assert judged.check("ls").verdict is Verdict.ALLOW
    ignored.write_text("".join(f"*a{number}*\n" for number in range(MOST_PATTERNS + 1)))
    with pytest.raises(PolicyError, match="patterns"):
        session(tmp_path).check("ls")


@pytest.mark.parametrize("glob", ["[" * 20_000, "*" * (LONGEST_GLOB + 1), "**/" * MOST_PARTS])
def test_globs_are_bounded(glob: str, tmp_path: Path) -> None:
    with session(tmp_path) as judged:
        for look in (judged.files.glob, lambda only: judged.files.search("x", only=only)):
            with pytest.raises(FileRefused, match="a glob may have at most"):
                look(glob)


class _Slow(Paper):
    """A disk that answers when the deadline is past, and counts who asks it all the same."""

    def __init__(self, due: Deadline) -> None:
        super().__init__()
        self.due, self.asked = due, 0

    def expand(self, pattern: str) -> tuple[str, ...] | None:
        self.asked, self.due._began = self.asked + 1, -1e9
        return super().expand(pattern)

    def git_helpers(self, directory: str) -> tuple[str, ...]:
        self.asked, self.due._began = self.asked + 1, -1e9
        return super().git_helpers(directory)


@pytest.mark.parametrize(
    "line",
    [
        "cat a* b* c*",
        "cat a*; cat b*",
        "rm a* b*",
        "git log; cat a*",
        "cd a && git log; cd b && git log",
    ],
)
def test_late_is_found_while_the_disk_is_asked(line: str) -> None:
    due = Deadline(60.0)
    disk = _Slow(due)
    document = {"sandbox": {"enabled": False}, "commands": {"allow": ["rm"]}}
    assert judged(line, document, files=disk, deadline=due).verdict is Verdict.DENY
    assert disk.asked == 1


def test_a_repository_is_looked_through_once_for_a_line() -> None:
    disk = _Slow(Deadline())
    document = {"sandbox": {"enabled": False}, "commands": {"allow": ["x"]}}
    assert judged("git log; git status; git log", document, files=disk).verdict is Verdict.ALLOW
    assert disk.asked == 1
