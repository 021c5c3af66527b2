"""What PATH finds where commands write is no program that an allowlist means."""

import os
from pathlib import Path

import pytest

import pinfold
from pinfold.isolated import shadowed_program

OUTSIDE = {
    "sandbox": {"excluded_commands": ["git status", "ls", "env"]},
    "commands": {"allow": ["git status", "ls", "make"]},
}


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path.resolve() / "project"


def verdict(project: Path, line: str, path: str) -> str:
    environ = {**os.environ, "HOME": str(project.parent / "home"), "PATH": path}
    with pinfold.Session([project], settings=OUTSIDE, environ=environ) as session:
        return session.check(line).verdict


@pytest.mark.parametrize("entry", ["{project}/.venv/bin", "{project}/../project/bin", "bin", "", "."])
def test_a_program_in_reach_of_commands_is_asked_about(
    project: Path, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    path = f"{entry.format(project=project)}:/usr/bin:/bin"
    assert verdict(project, "ls", "/usr/bin:/bin") == "allow"
    place = project / ".venv/bin" if "venv" in entry else project / "bin" if "bin" in entry else project
    for name in ("ls", "git", "env"):
        program(place / name)
    for line in ("ls", "cd / && ls", "env ls", "git status"):
        assert verdict(project, line, path) == "ask", line
    assert verdict(project, "/usr/bin/ls", path) == "allow"
    # Inside the sandbox it is the kernel that holds it.
    assert verdict(project, "make", path) == "allow"


def test_where_a_program_is_found_first_counts(project: Path) -> None:
    system, link = program(project.parent / "system/ls"), project.parent / "links/ls"
    link.parent.mkdir()
    link.symlink_to(program(project / "made"))
    assert shadowed_program("ls", f"{system.parent}:{project}", [str(project)]) == ""
    assert shadowed_program("ls", f"{link.parent}:{system.parent}", [str(project)]) == str(link)
    (project / "ls").write_text("not executable")
    assert shadowed_program("ls", f"{project}:{system.parent}", [str(project)]) == ""
    assert shadowed_program("none", f"{project}:{system.parent}", [str(project)]) == ""
