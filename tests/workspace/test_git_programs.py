"""What a repository would make git run."""

import subprocess
from pathlib import Path

import pytest

from pinfold.workspace import git_programs as repositories_of
from pinfold.workspace import repository as repositories
from pinfold.workspace.git_programs import git_helpers
from pinfold.workspace.repository import find_repository


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True)


CONFIGURED = [
    ("core.fsmonitor", "./evil", True),
    ("core.fsmonitor", "true", False),
    ("core.pager", "less", False),
    ("core.pager", "./evil", True),
    ("diff.external", "./evil", True),
    ("diff.tool.textconv", "./evil", True),
    ("filter.x.clean", "./evil", True),
    ("alias.st", "!./evil", True),
    ("include.path", "../more", True),
    ("core.HooksPath", "hooks", True),
    ("user.email", "a@b", False),
    ("remote.origin.url", "https://example.com/x", False),
    ("branch.main.remote", "origin", False),
]


@pytest.mark.parametrize(("key", "value", "runs"), CONFIGURED)
def test_configured_key(tmp_path: Path, key: str, value: str, runs: bool) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", key, value)
    assert bool(git_helpers(str(tmp_path))) is runs


def test_a_fresh_repository_runs_nothing(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert git_helpers(str(tmp_path)) == ()
    assert git_helpers(str(tmp_path / "below")) == ()


def configured(*pairs: tuple[str, str]) -> dict[str, str]:
    named = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(pairs)}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(pairs)}
    return {"GIT_CONFIG_COUNT": str(len(pairs)), **named, **values}


@pytest.mark.parametrize(
    ("environ", "runs"),
    [
        ({"GIT_DIR": "/x"}, True),
        ({"GIT_EXTERNAL_DIFF": "./evil"}, True),
        ({"GIT_CONFIG_PARAMETERS": "'core.fsmonitor=./evil'"}, True),
        (configured(("user.email", "a@b"), ("core.FSMonitor", "./evil")), True),
        (configured(("alias.status", "!./evil")), True),
        ({"GIT_CONFIG_GLOBAL": "shared.gitconfig"}, True),
        ({"GIT_CONFIG_GLOBAL": "HERE/shared.gitconfig"}, True),
        ({"GIT_CONFIG_SYSTEM": "HERE/shared.gitconfig"}, True),
        ({"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/etc/gitconfig"}, False),
        ({"XDG_CONFIG_HOME": "HERE/.config"}, True),
        ({"HOME": "HERE"}, True),
        ({"HOME": ".", "XDG_CONFIG_HOME": ""}, True),
        ({"XDG_CONFIG_HOME": "/etc"}, False),
        ({"GIT_CONFIG_COUNT": "x"}, True),
        ({"GIT_CONFIG_COUNT": "99999999999"}, True),
        (configured(("credential.helper", ""), ("safe.directory", "*")), False),
        ({"GIT_CONFIG_COUNT": "", "GIT_PAGER": "cat"}, False),
    ],
)
def test_a_variable_of_the_request(environ: dict[str, str], runs: bool, tmp_path: Path) -> None:
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q")
    given = {name: value.replace("HERE", str(top)) for name, value in environ.items()}
    assert bool(git_helpers(str(top), {"HOME": str(tmp_path / "home"), **given})) is runs


def test_a_project_at_home_leaves_the_users_own_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not git_helpers(str(tmp_path), {"HOME": str(tmp_path), "XDG_CONFIG_HOME": f"{tmp_path}/.config"})


def test_a_hook_that_runs_on_status(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    hook = tmp_path / ".git/hooks/post-index-change"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert git_helpers(str(tmp_path)) == ("hooks/post-index-change",)


def test_a_linked_worktree_reads_the_common_config(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", str(linked))
    git(main, "config", "diff.external", "./evil")
    assert git_helpers(str(linked)) == ("diff.external",)


def test_a_bare_repository_in_the_open(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")
    git(tmp_path, "config", "core.pager", "./evil")
    found = find_repository(str(tmp_path))
    assert found is not None
    assert found.directory == str(tmp_path)
    assert git_helpers(str(tmp_path)) == ("core.pager",)


def test_only_what_has_a_head_is_looked_at_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file tool asks for each write, of every directory above it."""
    below = tmp_path / "a/b/c"
    below.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    asked: list[str] = []
    told_common = repositories.told_common

    def told(place: str) -> str:
        asked.append(place)
        return told_common(place)

    monkeypatch.setattr(repositories, "told_common", told)
    found = find_repository(str(below))
    assert found is not None and asked == [found.directory] == [f"{tmp_path}/.git"]


@pytest.mark.parametrize("text", ["\ufeff[core]\npager = x\n", "[core\npager = x\n", "= x\n", "\xff"])
def test_a_configuration_that_cannot_be_read_is_a_doubt(tmp_path: Path, text: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git/config").write_text(text, encoding="latin-1" if text == "\xff" else "utf-8")
    assert git_helpers(str(tmp_path))


def test_a_repository_inside_counts_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    inner = tmp_path / "vendor/inner"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    assert git_helpers(str(tmp_path)) == ()
    git(inner, "config", "core.fsmonitor", "./evil")
    assert git_helpers(str(tmp_path)) == ("core.fsmonitor",)


def test_git_climbs_past_what_is_no_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "diff.external", "./evil")
    (tmp_path / "sub/.git").mkdir(parents=True)
    assert git_helpers(str(tmp_path / "sub")) == ("diff.external",)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/link").symlink_to(tmp_path / "sub")
    assert git_helpers(str(tmp_path / "elsewhere/link")) == ("diff.external",)


@pytest.mark.parametrize("name", repositories_of.LEADING)
def test_a_variable_that_leads_git_elsewhere_is_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    git(tmp_path, "init", "-q")
    assert git_helpers(str(tmp_path)) == ()
    monkeypatch.setenv(name, "x")
    assert git_helpers(str(tmp_path)) == (f"the variable {name}",)


def test_beyond_the_bound_of_node_modules_the_index_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    inner = tmp_path / "node_modules/x/m"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    git(inner, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "x")
    git(inner, "config", "core.fsmonitor", "./evil")
    monkeypatch.setattr(repositories_of, "MOST_DIRECTORIES", 1)
    assert git_helpers(str(tmp_path)) == ()
    git(tmp_path, "add", "node_modules/x/m")
    assert git_helpers(str(tmp_path)) == ("core.fsmonitor",)
    (tmp_path / "src").mkdir()
    assert any("directories beyond the first 1" in each for each in git_helpers(str(tmp_path)))


def test_a_hook_in_the_working_tree_by_the_users_own_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    (tmp_path / ".gitconfig").write_text("[core]\nhooksPath = .githooks\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    top.mkdir()
    git(top, "init", "-q")
    assert git_helpers(str(top)) == ()
    (top / ".githooks").mkdir()
    assert git_helpers(str(top)) == ("core.hookspath",)
