"""Settings that follow their files."""

import os
from pathlib import Path

import pytest
from tests.settings.stand_in import shape, write

from pinfold.model.errors import PolicyError
from pinfold.settings import Live, Sources


def test_edits_take_effect(tmp_path: Path) -> None:
    managed = write(tmp_path, "managed.toml", "[commands]\nallow = ['curl']")
    live = Live(Sources(managed=managed, managed_dir=f"{tmp_path}/d", user=f"{tmp_path}/user.toml"), shape)
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


def test_a_change_of_equal_size_and_time_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path, "user.toml", "[commands]\ndeny = ['aa']")
    live = Live(Sources(user=path), shape)
    facts = os.stat(path)
    write(tmp_path, "user.toml", "[commands]\ndeny = ['bb']")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert live.current().commands.deny[0].text == "bb"


def test_a_broken_file_keeps_the_last_good(tmp_path: Path) -> None:
    reports: list[PolicyError] = []
    path = write(tmp_path, "managed.toml", "[commands]\ndeny = ['rm']")
    live = Live(Sources(managed=path), shape, report=reports.append)
    good = live.current()
    write(tmp_path, "managed.toml", "[commands]\ndeny = [")
    assert live.current() is good
    assert live.current() is good
    assert len(reports) == 1
    assert live.trouble is reports[0]
    write(tmp_path, "managed.toml", "[commands]\ndeny = ['rm', 'dd']")
    assert len(live.current().commands.deny) == 2
    assert live.trouble is None


def test_a_broken_start_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "managed.toml", "x")
    with pytest.raises(PolicyError):
        Live(Sources(managed=path), shape)
