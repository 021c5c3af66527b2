"""What commands were refused, where the disk changes while that is told."""

import os
from pathlib import Path

import pytest

from pinfold.session.explaining import _may_write


def test_what_is_taken_away_meanwhile_is_nobodys_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert _may_write(f"{there}/new")

    def closed(path: str, _: int) -> bool:
        os.rmdir(path)
        return False

    monkeypatch.setattr(os, "access", closed)
    assert not _may_write(f"{there}/new")
