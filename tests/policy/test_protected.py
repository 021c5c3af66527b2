"""Protected names in every spelling, and ordinary work let be."""

import pytest

from pinfold.policy.protected import protected_by, protected_names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/hooks/pre-commit", ".git/hooks"),
        ("sub/deep/.git/config", ".git/config"),
        (".vscode/tasks.json", ".vscode"),
        (".bashrc", ".bashrc"),
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
    found = protected_by(path, ())
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "path",
    [
        *("package.json", "Makefile", "tsconfig.json", "src/main.py", ".gitignore"),
        *(".git/objects/ab/cd", ".git/HEAD", "docs/HEAD", "git/hooks/x", "claude.md", "a~1", ""),
        *(".env", ".venv/bin/python", "config", "hooks/x", "backup~"),
    ],
)
def test_ordinary_work(path: str) -> None:
    assert protected_by(path, ()) is None


def test_extra_names() -> None:
    assert protected_by("a/deploy.sh", ("deploy.sh",)) is not None
    assert protected_by("deploy/run", ("deploy/run",)) is not None
    assert protected_by("a/deploy/run", ("deploy/run",)) is None


def test_an_extra_name_from_here() -> None:
    assert protected_by("deploy.sh", ("./deploy.sh",)) is not None


def test_the_table() -> None:
    names = protected_names()
    assert len({name.name for name in names}) == len(names)
    assert all(name.why for name in names)
    assert all(protected_by(name.name.replace("*", "w"), ()) is not None for name in names)
