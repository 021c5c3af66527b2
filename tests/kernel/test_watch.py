"""What happens to a directory and in it is told."""

import os
from pathlib import Path

import pytest

from pinfold.kernel import watch


def test_attributes_of_a_directory(tmp_path: Path) -> None:
    queue = watch.create()
    watch.add(queue, str(tmp_path), watch.IN_ATTRIB)
    assert watch.events(queue) == []
    tmp_path.chmod(0o700)
    tmp_path.chmod(0o755)
    assert [event.name for event in watch.events(queue)] == [b""]
    (tmp_path / "file").write_text("")
    os.link(tmp_path / "file", tmp_path / "other")
    assert watch.events(queue) == []
    (tmp_path / "file").chmod(0o600)
    assert [event.name for event in watch.events(queue)] == [b"file"]
    os.close(queue)


def test_names_in_a_directory(tmp_path: Path) -> None:
    queue = watch.create()
    watch.add(queue, str(tmp_path), watch.IN_CREATE | watch.IN_MOVED_TO | watch.IN_MOVE_SELF)
    (tmp_path / "a").write_text("")
    (tmp_path / "a").rename(tmp_path / "b")
    tmp_path.rename(tmp_path.with_name("moved"))
    told = [(event.mask, event.name) for event in watch.events(queue)]
    assert told == [(watch.IN_CREATE, b"a"), (watch.IN_MOVED_TO, b"b"), (watch.IN_MOVE_SELF, b"")]
    os.close(queue)


def test_only_directories(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    queue = watch.create()
    with pytest.raises(NotADirectoryError):
        watch.add(queue, str(tmp_path / "file"), watch.IN_CREATE)
    os.close(queue)
