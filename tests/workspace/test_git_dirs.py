"""What a `.git` that is no directory opens, and what it does not."""

import os
import subprocess
from pathlib import Path

import pytest

from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.policy.shipped_protected import name_rules
from pinfold.workspace.git_dirs import OutsideGitDir, is_open_to_git, outside_git_dir
from pinfold.workspace.repository import find_repository
from pinfold.workspace.scan import WorkspaceScanner

RULES = name_rules(())
WRITING = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)


def git(where: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *arguments], cwd=where, check=True, capture_output=True)


@pytest.fixture
def main(tmp_path: Path) -> Path:
    top = tmp_path.resolve() / "main"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "commit", "-q", "--allow-empty", "-m", "x")
    return top


def test_a_linked_worktree_opens_what_a_commit_needs(main: Path) -> None:
    linked = main.parent / "linked"
    git(main, "worktree", "add", "-q", str(linked))
    git(main, "worktree", "add", "-q", str(main.parent / "third"))
    found = outside_git_dir(f"{linked}/.git", (str(linked),), RULES)
    assert found.writable == (f"{main}/.git",)
    closed = {path.removeprefix(f"{main}/.git/") for path in found.protected}
    assert {"HEAD", "config", "hooks", "index", "info", "worktrees/third"} <= closed
    assert {"worktrees/linked/gitdir", "worktrees/linked/commondir"} <= closed
    assert not closed & {"objects", "refs", "logs", "worktrees", "worktrees/linked"}
    # One whose repository lies in a root as well needs nothing.
    assert outside_git_dir(f"{linked}/.git", (str(main.parent),), RULES) == OutsideGitDir()


def test_a_submodule_opens_its_own_directory(main: Path) -> None:
    library = main.parent / "library"
    subprocess.run(["cp", "-a", main, library], check=True)
    git(main, "submodule", "add", str(library), "sub")
    found = outside_git_dir(f"{main}/sub/.git", (f"{main}/sub",), RULES)
    assert found.writable == (f"{main}/.git/modules/sub",)
    assert {f"{main}/.git/modules/sub/{name}" for name in ("config", "hooks")} <= set(found.protected)


def test_what_git_may_write_outside_once_it_may_write_is_known_before(main: Path) -> None:
    linked, library = main.parent / "linked", main.parent / "library"
    subprocess.run(["cp", "-a", main, library], check=True)
    git(main, "submodule", "add", str(library), "sub")
    git(main, "worktree", "add", "-q", str(linked))
    of_linked = [
        f"{main}/.git/{name}" for name in ("worktrees/linked/index.lock", "objects/f3", "refs/heads/x")
    ]
    of_sub = f"{main}/.git/modules/sub/index.lock"
    assert all(is_open_to_git(path, (str(linked),)) for path in of_linked)
    assert is_open_to_git(of_sub, (f"{main}/sub",))
    for name in ("index.lock", "config.lock", "hooks/pre-commit", "worktrees/third/HEAD", "modules/sub/HEAD"):
        assert not is_open_to_git(f"{main}/.git/{name}", (str(linked),))
    assert not any(is_open_to_git(path, (str(library),)) for path in (*of_linked, of_sub))


@pytest.mark.parametrize("linked", (False, True))
def test_a_repository_of_another_name_in_a_root_is_closed_as_a_git_directory_is(
    main: Path, linked: bool
) -> None:
    (main / "tree").mkdir()
    git(main / "tree", "init", "-q", "--separate-git-dir", str(main / "meta"))
    if linked:
        git(main / "tree", "commit", "-q", "--allow-empty", "-m", "x")
        git(main / "tree", "worktree", "add", "-q", str(main / "linked"))
    found = WorkspaceScanner([str(main)], str(main.parent))(WRITING)
    assert found.writable == ()
    assert {f"{main}/meta/{name}" for name in ("config", "hooks")} <= set(found.protected)
    assert f"{main}/meta/info/attributes" in {rule.name for rule in found.names}
    own = f"{main}/meta/worktrees/linked"
    assert {f"{own}/{name}" for name in ("commondir", "gitdir") if linked} <= set(found.protected)
    assert not {own, f"{main}/meta/worktrees"} & set(found.protected)
    closed = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True)
    assert (
        f"{main}/meta/worktrees" in WorkspaceScanner([str(main)], str(main.parent))(closed).protected
    ) is linked


@pytest.mark.parametrize(
    "text", ["gitdir: {main}/.git\n", "gitdir: {main}/.git/worktrees/x\n", "gitdir: /\n", "x"]
)
def test_what_does_not_lead_back_opens_nothing(main: Path, text: str) -> None:
    work = main.parent / "work"
    work.mkdir()
    (work / ".git").write_text(text.format(main=main))
    assert outside_git_dir(f"{work}/.git", (str(work),), RULES).writable == ()


def test_a_worktree_that_was_copied_opens_nothing(main: Path) -> None:
    linked, copy = main.parent / "linked", main.parent / "copy"
    git(main, "worktree", "add", "-q", str(linked))
    subprocess.run(["cp", "-a", linked, copy], check=True)
    assert outside_git_dir(f"{copy}/.git", (str(copy),), RULES) == OutsideGitDir()


@pytest.mark.parametrize("where", ("config", "worktrees/x/gitdir"))
def test_nobody_waits_for_a_fifo_where_a_repository_leads(main: Path, where: str) -> None:
    work, own = main.parent / "work", main / ".git" / "worktrees" / "x"
    for directory in (work, own / "objects", own / "refs"):
        directory.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/x\n")
    (own / "commondir").write_text("../..\n")
    (main / ".git" / where).unlink(missing_ok=True)
    os.mkfifo(main / ".git" / where)
    (work / ".git").write_text(f"gitdir: {own if 'worktrees' in where else main / '.git'}\n")
    assert outside_git_dir(f"{work}/.git", (str(work),), RULES) == OutsideGitDir()


def test_a_git_file_may_say_anything(tmp_path: Path) -> None:
    for text in ("gitdir: a\0b", "gitdir: " + "a/" * 9000, "gitdir: .git"):
        (tmp_path / ".git").write_text(text)
        assert find_repository(str(tmp_path)) is None
