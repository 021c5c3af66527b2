"""A change of a directory's attributes is seen, one in it is not."""

import os
from pathlib import Path

import pytest

from pinfold.kernel.watch import has_changed, watch_attributes


def test_changes_of_a_directory(tmp_path: Path) -> None:
    watch = watch_attributes(str(tmp_path))
    assert not has_changed(watch)
    tmp_path.chmod(0o700)
    tmp_path.chmod(0o755)
    assert has_changed(watch) and not has_changed(watch)
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o600)
    os.link(tmp_path / "file", tmp_path / "other")
    assert not has_changed(watch)
    os.close(watch)


def test_only_directories(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        watch_attributes(str(tmp_path / "file"))
