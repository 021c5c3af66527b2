"""What git's configuration makes it run or include, as far as commands could write it."""

import os
import subprocess
from pathlib import Path

import pytest

from pinfold.workspace.git_places import GitPlaces, Settings
from pinfold.workspace.repository import find_repository

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
    ("alias.x", '!"$(git rev-parse --show-toplevel)"/bin/x', "bin/x"),
    ("alias.x", '!"$(git rev-parse --show-toplevel)/bin/x"', "bin/x"),
    ("alias.x", "!$(git rev-parse --show-cdup)bin/x", "bin/x"),
    ("alias.x", '!"$GIT_PREFIX"/bin/x', "bin/x"),
    ("alias.x", "!poetry run python bin/x.py", "bin/x.py"),
    ("lfs.customtransfer.x.path", "bin/x", "bin/x"),
    ("svn.authorsProg", "bin/x", "bin/x"),
    ("core.sshCommand", "nice -n 5 ./new.sh", "new.sh"),
    ("core.pager", "timeout 10s ./new.sh", "new.sh"),
    ("diff.external", '"./with space/new" -a', "with space/new"),
    ("alias.x", "!head -n 5 src/app/text", None),
    ("alias.x", "!log --grep 'a b/c'", None),
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
    (top / "my tools").mkdir()
    (top / "my tools/x").touch(mode=0o755)
    (top / "bin/runs").touch(mode=0o755)
    git(top, "init", "-q")
    return top


def places(top: Path, *roots: Path) -> set[str]:
    found = find_repository(str(top))
    assert found
    given = GitPlaces(str(top.parent), {}).of([found], tuple(map(str, roots or (top,))))
    return {os.path.relpath(path, top) for path in given if os.path.isabs(path)}


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
    from pinfold.workspace import git_places

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


def test_a_program_after_a_change_of_directory_is_looked_for_there(top: Path) -> None:
    git(top, "config", "alias.x", "!cd bin && ./runs")
    assert "bin/runs" in places(top)


def test_what_is_relative_in_the_users_own_configuration_is_a_name_at_any_depth(top: Path) -> None:
    own = top.parent / ".gitconfig"
    own.write_text("[core]\nhooksPath = .githooks\nattributesFile = ~/attributes\neditor = vim\n")
    with own.open("a") as file:
        file.write('[diff "x"]\ncommand = tools/x -a\n[alias]\ny = log a/b\nz = !python3 z.py\n')
    found = GitPlaces(str(top.parent), {}).of([], (str(top),))
    assert {".githooks/pre-commit", ".githooks/post-index-change", "tools/x", "z.py"} <= {*found}
    assert all(name.startswith(".githooks/") or name in ("tools/x", "z.py") for name in found)


def test_the_users_own_configuration_is_closed_where_it_lies_in_a_project(top: Path) -> None:
    (top / "link").symlink_to("real")
    (top.parent / ".gitconfig").symlink_to(top / "link")
    assert {*GitPlaces(str(top.parent), {}).of([], (str(top),))} == {f"{top}/link", f"{top}/real"}
    (top.parent / ".gitconfig").unlink()
    given = GitPlaces(str(top.parent), {"GIT_CONFIG_GLOBAL": f"{top}/own"})
    assert {*given.of([], (str(top),))} == {f"{top}/own"}


def test_a_program_in_quotes_may_have_blanks_in_its_path(top: Path) -> None:
    git(top, "config", "alias.x", '!"./my tools/x"')
    assert "my tools/x" in places(top)
