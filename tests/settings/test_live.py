"""Settings that follow their files."""

import os
from pathlib import Path

import pytest
from tests.settings.loaded import shape, write

from pinfold.model.errors import PolicyError
from pinfold.settings import LiveSettings, Sources


def test_edits_take_effect(tmp_path: Path) -> None:
    managed = write(tmp_path, "managed.toml", "[commands]\nallow = ['curl']")
    live = LiveSettings(
        Sources(managed=managed, managed_dir=f"{tmp_path}/d", user=f"{tmp_path}/user.toml"), shape
    )
    before = live.current()
    assert live.current() is before
    write(tmp_path, "managed.toml", "[commands]\nallow = []")
    assert live.current().commands.allow == ()
    # files that come and go
    write(tmp_path, "user.toml", "[commands]\ndeny = ['rm']")
    assert len(live.current().commands.deny) == 1
    write(tmp_path, "d/10.toml", "[commands]\ndeny = ['dd']")
    assert len(live.current().commands.deny) == 2
    write(tmp_path, "d/10.toml", "[commands]\ndeny = ['dd', 'mkfs']")
    assert len(live.current().commands.deny) == 3
    os.unlink(tmp_path / "user.toml")
    assert len(live.current().commands.deny) == 2


def test_directories_that_come_and_go_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    live = LiveSettings(Sources(user="user.toml", projects=(f"{tmp_path}/work",)), shape)
    assert live.files[0] == "user.toml" and f"{tmp_path}/work/.pinfold/settings.toml" in live.files
    write(tmp_path, "work/.pinfold/settings.toml", "[commands]\ndeny = ['rm']")
    assert len(live.current().commands.deny) == 1
    write(tmp_path, "user.toml", "[commands]\ndeny = ['dd']")
    assert len(live.current().commands.deny) == 2
    os.rename(tmp_path / "work", tmp_path / "away")
    assert len(live.current().commands.deny) == 1


def test_a_change_of_equal_size_and_time_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path, "user.toml", "[commands]\ndeny = ['aa']")
    live = LiveSettings(Sources(user=path), shape)
    facts = os.stat(path)
    write(tmp_path, "user.toml", "[commands]\ndeny = ['bb']")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert live.current().commands.deny[0].text == "bb"


def test_a_broken_file_keeps_the_last_good(tmp_path: Path) -> None:
    reports: list[PolicyError] = []
    path = write(tmp_path, "managed.toml", "[commands]\ndeny = ['rm']")
    live = LiveSettings(Sources(managed=path), shape, report=reports.append)
    good = live.current()
    write(tmp_path, "managed.toml", "[commands]\ndeny = [")
    assert live.current() == good
    assert live.current() is live.current()
    assert len(reports) == 1
    assert list(live.troubles) == [str(reports[0])]
    write(tmp_path, "managed.toml", "[commands]\ndeny = ['rm', 'dd']")
    assert len(live.current().commands.deny) == 2
    assert not live.troubles


def test_a_broken_start_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "managed.toml", "x")
    with pytest.raises(PolicyError):
        LiveSettings(Sources(managed=path), shape)


def denied(live: LiveSettings) -> list[str]:
    return [rule.text for rule in live.current().commands.deny]


def test_a_broken_file_freezes_no_other(tmp_path: Path) -> None:
    reports: list[PolicyError] = []
    managed = write(tmp_path, "managed.toml", "[commands]\ndeny = ['rm']")
    write(tmp_path, "root/.pinfold/settings.toml", "[commands]\ndeny = ['make']")
    live = LiveSettings(
        Sources(managed=managed, projects=(f"{tmp_path}/root",)), shape, report=reports.append
    )
    for broken in ("[commands", "[commands]\ndeny = ['a | b']", "[commands]\ndenny = []"):
        reports.clear()
        write(tmp_path, "root/.pinfold/settings.toml", broken)
        write(tmp_path, "managed.toml", "[commands]\ndeny = ['dd']")
        assert denied(live) == ["dd", "make"]
        write(tmp_path, "managed.toml", "[commands]\ndeny = ['mkfs']")
        assert denied(live) == ["mkfs", "make"]
        assert [str(report) for report in reports] == list(live.troubles)
        assert len(reports) == 1
    # gone is gone; broken again, what it last said holds
    os.unlink(tmp_path / "root/.pinfold/settings.toml")
    assert denied(live) == ["mkfs"]
    write(tmp_path, "root/.pinfold/settings.toml", "x")
    assert denied(live) == ["mkfs", "make"]


def test_a_managed_directory_that_cannot_be_listed(tmp_path: Path) -> None:
    write(tmp_path, "d/10.toml", "[commands]\ndeny = ['rm']")
    live = LiveSettings(Sources(managed_dir=f"{tmp_path}/d", user=f"{tmp_path}/user.toml"), shape)
    os.rename(tmp_path / "d", tmp_path / "away")
    (tmp_path / "d").write_text("")
    write(tmp_path, "user.toml", "[commands]\ndeny = ['dd']")
    assert denied(live) == ["rm", "dd"]
    assert "cannot be listed" in live.troubles[0]
    write(tmp_path, "user.toml", "[commands]\ndeny = ['dd', 'mkfs']")
    assert denied(live) == ["rm", "dd", "mkfs"]
