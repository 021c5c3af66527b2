"""Whether a thing is still the one that was there."""

import os
from pathlib import Path

import pytest

from pinfold.sandbox.linux.host import pen_draft
from pinfold.sandbox.linux.host.pen_draft import is_unchanged, snapshot


def reuse(path: Path) -> bool:
    """Replaces a file by another with its inode's number, if this file system gives numbers again."""
    number = path.stat().st_ino
    for _ in range(20):
        path.unlink()
        path.write_text("other")
        if path.stat().st_ino == number:
            return True
    return False


def test_what_stays_is_held(tmp_path: Path) -> None:
    file, directory = tmp_path / "file", tmp_path / "directory"
    file.write_text("")
    directory.mkdir()
    held = snapshot([str(file), str(directory), str(tmp_path / "missing")])
    assert is_unchanged(held)
    file.write_text("changed in place")
    file.chmod(0o600)
    (directory / "more").write_text("")
    assert is_unchanged(held)
    (tmp_path / "missing").write_text("")
    assert not is_unchanged(held)


def test_what_is_replaced_is_not_held(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    held = snapshot([str(file)])
    (tmp_path / "new").write_text("")
    os.replace(tmp_path / "new", file)
    assert not is_unchanged(held)
    held = snapshot([str(file)])
    file.unlink()
    assert not is_unchanged(held)


def test_a_number_that_is_used_again_is_another_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    held = snapshot([str(file)])
    reuse(file)
    assert not is_unchanged(held)
    directory = tmp_path / "directory"
    directory.mkdir()
    held = snapshot([str(directory)])
    directory.rmdir()
    directory.mkdir()
    assert not is_unchanged(held)


def test_a_time_that_another_may_have_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the clock of files stands still: whatever is made in a tick has the same time."""
    looked = os.lstat

    def in_ticks(path: str) -> os.stat_result:
        status = looked(path)
        facts = {"st_ctime_ns": status.st_ctime_ns // 10**9 * 10**9}
        return os.stat_result(tuple(status), facts)

    directory = tmp_path / "directory"
    directory.mkdir()
    monkeypatch.setattr(os, "lstat", in_ticks)
    monkeypatch.setattr(pen_draft, "TICK", 2 * 10**9)
    found = snapshot([str(directory)])
    (directory / "more").mkdir()
    assert is_unchanged(found)
    (directory / "more").rmdir()
    directory.rmdir()
    directory.mkdir()
    assert not is_unchanged(found)
