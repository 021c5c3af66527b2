"""Protected names in every spelling, and ordinary work let be."""

import pytest

from pinfold.model.settings import FilesystemSettings
from pinfold.policy.protected import ProtectedName, protected_by, protected_names

ROOT = "/home/me/project"


def found(relative: str, *entries: str) -> ProtectedName | None:
    return protected_by(f"{ROOT}/{relative}".rstrip("/"), (ROOT,), entries)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/hooks/pre-commit", ".git/hooks"),
        ("sub/deep/.git/config", ".git/config"),
        (".vscode/tasks.json", ".vscode"),
        (".bashrc", ".bashrc"),
        (".opencode/plugin/x.ts", ".opencode"),
        ("sub/opencode.json", "opencode.json"),
        ("_darcs/prefs/defaults", "_darcs/prefs/defaults"),
        # spellings
        (".GIT/Hooks/x", ".git/hooks"),
        (".g\u200cit/hooks/x", ".git/hooks"),
        (".git./hooks /x", ".git/hooks"),
        (".git::$INDEX_ALLOCATION/hooks/x", ".git/hooks"),
        ("git~1/hooks/x", ".git/hooks"),
        (".hu\u017fky/x", ".husky"),
    ],
)
def test_protected(path: str, name: str) -> None:
    protected = found(path)
    assert protected is not None
    assert protected.name == name


@pytest.mark.parametrize(
    "path",
    [
        *("package.json", "Makefile", "tsconfig.json", "src/main.py", ".gitignore"),
        *(".git/objects/ab/cd", ".git/HEAD", "docs/HEAD", "git/hooks/x", "claude.md", "a~1", ""),
        *(".env", ".venv/bin/python", "config", "hooks/x", "backup~"),
    ],
)
def test_ordinary_work(path: str) -> None:
    assert found(path) is None


@pytest.mark.parametrize("path", [".git", "sub/.git", ".config", "sub/.cargo"])
def test_a_directory_that_holds_one_would_take_it_along(path: str) -> None:
    assert found(path) is not None


def test_a_git_file_leads_elsewhere() -> None:
    """Of a worktree's or a submodule's `.git`, which is a file, the reason is that it leads elsewhere."""
    name = found("sub/.git")
    assert name is not None and "lead git to another" in name.why


def test_entries_of_the_policy() -> None:
    # Bare names hold at any depth, paths where they are: so `settings.policy_of` writes them.
    assert found("a/deploy.sh", "deploy.sh") is not None
    assert found("src/gen/x", f"{ROOT}/src/gen") is not None
    assert found("src", f"{ROOT}/src/gen") is not None
    assert found("a/src/gen/x", f"{ROOT}/src/gen") is None
    assert protected_by("/etc/x", (ROOT,), ("/etc",)) is not None


def test_every_root_is_protected() -> None:
    for root in ("/srv/one", "/srv/two"):
        assert protected_by(f"{root}/.git/config", ("/srv/one", "/srv/two"), ()) is not None
    assert protected_by("/elsewhere/.git/config", (ROOT,), ()) is None


def test_the_table() -> None:
    names = protected_names()
    assert len({name.name for name in names}) == len(names)
    assert all(name.why for name in names)
    assert all(found(name.name) is not None for name in names)


def test_the_ignore_files_that_everybody_has_are_listed() -> None:
    """Others that settings name are protected by the session's law."""
    assert {each.name for each in protected_names()}.issuperset(FilesystemSettings().ignore_files)
