"""Globs in grants stand for what is there when a command begins, and are bounded."""

import os
from pathlib import Path

import pytest

import pinfold
from pinfold.workspace import granted_paths
from pinfold.workspace.granted_paths import matching


def opened(home: Path, *write: str, key: str = "write") -> pinfold.Session:
    project = home / "project"
    project.mkdir(parents=True, exist_ok=True)
    settings = {"filesystem": {key: list(write)}}
    return pinfold.Session([project], settings=settings, environ={"HOME": str(home)})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "home"


def test_a_glob_opens_what_is_there_and_what_comes_later(home: Path) -> None:
    (home / "x_one").mkdir(parents=True)
    (home / "y").mkdir()
    with opened(home, "~/x_*") as session:

        def writable() -> list[str]:
            return [os.path.basename(path) for path in session.policy.additional_readwrite_paths]

        assert writable() == ["x_one"]
        (home / "x_two").mkdir()
        assert writable() == ["x_one", "x_two"]
        (home / "x_one").rmdir()
        assert writable() == ["x_two"]


def test_a_glob_that_matches_nothing_is_named(home: Path) -> None:
    with opened(home, "~/nothing_*") as session:
        assert session.policy.additional_readwrite_paths == ()
        assert any("`~/nothing_*` in `filesystem.write` opens nothing" in note for note in session.notices)
        (home / "nothing_more").mkdir()
        assert session.policy.additional_readwrite_paths and not session.notices


def test_a_glob_may_open_a_secret_by_its_name(home: Path) -> None:
    (home / ".aws").mkdir(parents=True)
    with opened(home, "~/.aw*", key="read") as session:
        assert str(home / ".aws") not in session.policy.hidden
    with opened(home, "~/*aws", key="read") as session:
        assert str(home / ".aws") in session.policy.hidden, "a star stands for no dot at the start"


def test_a_link_that_commands_can_make_is_not_followed(home: Path) -> None:
    project = home / "project"
    project.mkdir(parents=True)
    (home / "other").mkdir()
    (project / "x_link").symlink_to(home / "other")
    with opened(home, "x_*") as session:
        assert str(home / "other") not in session.policy.additional_readwrite_paths


def test_looking_is_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    for number in range(30):
        (home / f"n{number}").mkdir()
    monkeypatch.setattr(granted_paths, "MOST_FOUND", 10)
    with opened(home, "~/n*") as session:
        assert session.policy.additional_readwrite_paths == ()
        assert any("matches more than 10 paths" in note for note in session.notices)
    monkeypatch.setattr(granted_paths, "MOST_LOOKED_AT", 20)
    with opened(home, "~/*/none") as session:
        assert session.policy.additional_readwrite_paths == ()
        assert any("more than 20 names" in note for note in session.notices)


def test_a_path_that_is_there_is_no_glob(home: Path) -> None:
    (home / "x_[1]").mkdir(parents=True)
    (home / "x_1").mkdir()
    assert matching(str(home / "x_[1]")) == [str(home / "x_[1]")]
    assert matching(str(home / "x_?")) == [str(home / "x_1")]
    assert matching(str(home / "[")) == [] == matching(str(home / "gone" / "*"))
