"""What git's configuration makes it run or include, as far as commands could write it."""

import os
import subprocess
from pathlib import Path

import pytest

from pinfold.session.git_places import GitPlaces, Settings
from pinfold.session.repository import find_repository

VALUES = [
    ("core.hooksPath", ".githooks", ".githooks"),
    ("core.hooksPath", "a/../hooks/", "hooks"),
    ("core.hooksPath", "/dev/null", None),
    ("core.fsmonitor", "true", None),
    ("core.editor", "vim", None),
    ("core.editor", "vim -u ./vimrc", None),
    ("core.editor", '"$PWD/edit" --wait', "edit"),
    ("core.sshCommand", "ssh -i ~/.ssh/id", None),
    ("core.sshCommand", "python3.11 -I tool.py", "tool.py"),
    ("core.pager", "A=b sh -c 'exec ./page'", "page"),
    ("filter.lfs.clean", "git-lfs clean -- %f", None),
    ("alias.x", "log --format=%h origin/main", None),
    ("alias.x", "!git log origin/main && cd src/app", None),
    ("alias.x", "!cd src && $(git rev-parse --show-toplevel)/bin/x", "bin/x"),
    ("alias.x", "!git diff -- bin/runs", "bin/runs"),
    ("alias.x", "!git diff -- src/app/text", None),
    ("alias.x", "-c core.pager=./page log", "page"),
    ("include.path", "../more", "more"),
    ("includeIf.gitdir:/nowhere/.path", "../more", "more"),
    ("remote.origin.url", "./elsewhere", None),
    ("url.x.insteadOf", "./y", None),
    ("user.name", "./x", None),
]


def git(where: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=where, check=True, capture_output=True)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path.resolve() / "top"
    (top / "src/app").mkdir(parents=True)
    (top / "bin").mkdir()
    (top / "src/app/text").write_text("")
    (top / "bin/runs").touch(mode=0o755)
    git(top, "init", "-q")
    return top


def places(top: Path, *roots: Path) -> set[str]:
    found = find_repository(str(top))
    assert found
    given = GitPlaces(str(top.parent), {}).of([found], tuple(map(str, roots or (top,))))
    return {os.path.relpath(path, top) for path in given}


@pytest.mark.parametrize(("key", "value", "place"), VALUES)
def test_what_a_key_makes_git_obey(top: Path, key: str, value: str, place: str | None) -> None:
    git(top, "config", key, value)
    assert places(top) == ({place} if place else set())


def test_what_is_included_counts_and_so_does_the_users_own(top: Path) -> None:
    git(top, "config", "include.path", "../inc/one")
    (top / "inc").mkdir()
    (top / "inc/one").write_text("[include]\npath = two\n")
    (top / "inc/two").write_text("\ufeff[core]\neditor = ./edit\n[include]\npath = one\n")
    (top.parent / ".gitconfig").write_text("[core]\nhooksPath = own\n")
    assert places(top) == {"inc/one", "inc/two", "edit", "own"}
    assert places(top, top / "inc") == {"inc/one", "inc/two"}


def test_files_that_include_each_other_take_no_time(top: Path) -> None:
    """Each names ten others, and a project brings them with it."""
    names = [f"c{number}" for number in range(10)]
    for name in names:
        (top / name).write_text("[include]\n" + "".join(f"path = {each}\n" for each in names))
    git(top, "config", "include.path", "../c0")
    assert places(top) == set(names)


def test_a_directory_that_holds_the_project_is_not_closed_as_a_whole(top: Path) -> None:
    git(top, "config", "core.hooksPath", ".")
    found = places(top)
    assert "pre-commit" in found and "." not in found


def test_where_a_link_leads_counts_too(top: Path) -> None:
    (top / "tools").symlink_to("src")
    git(top, "config", "core.hooksPath", "tools/hooks")
    assert places(top) == {"tools/hooks", "src/hooks"}


def test_configuration_is_read_again_when_it_has_changed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pinfold.session import git_places

    told: list[str] = []
    read = git_places._read

    def noted(file: str) -> Settings:
        told.append(file)
        return read(file)

    monkeypatch.setattr(git_places, "_read", noted)
    found = find_repository(str(top))
    assert found
    known = GitPlaces(str(top.parent), {})
    for _ in range(3):
        assert known.of([found], (str(top),)) == {}
    assert told.count(f"{top}/.git/config") == 1
    git(top, "config", "core.hooksPath", ".githooks")
    assert list(known.of([found], (str(top),))) == [f"{top}/.githooks"]
    assert told.count(f"{top}/.git/config") == 2
