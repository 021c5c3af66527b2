"""What happens to a directory and in it is told."""

import os
from pathlib import Path

import pytest

from pinfold.kernel import inotify


def test_attributes_of_a_directory(tmp_path: Path) -> None:
    queue = inotify.create()
    inotify.add(queue, str(tmp_path), inotify.IN_ATTRIB)
    assert inotify.events(queue) == []
    tmp_path.chmod(0o700)
    tmp_path.chmod(0o755)
    assert [event.name for event in inotify.events(queue)] == [b""]
    (tmp_path / "file").write_text("")
    os.link(tmp_path / "file", tmp_path / "other")
    assert inotify.events(queue) == []
    (tmp_path / "file").chmod(0o600)
    assert [event.name for event in inotify.events(queue)] == [b"file"]
    os.close(queue)


def test_names_in_a_directory(tmp_path: Path) -> None:
    queue = inotify.create()
    inotify.add(queue, str(tmp_path), inotify.IN_CREATE | inotify.IN_MOVED_TO | inotify.IN_MOVE_SELF)
    (tmp_path / "a").write_text("")
    (tmp_path / "a").rename(tmp_path / "b")
    tmp_path.rename(tmp_path.with_name("moved"))
    told = [(event.mask, event.name) for event in inotify.events(queue)]
    assert told == [(inotify.IN_CREATE, b"a"), (inotify.IN_MOVED_TO, b"b"), (inotify.IN_MOVE_SELF, b"")]
    os.close(queue)


def test_only_directories(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    queue = inotify.create()
    with pytest.raises(NotADirectoryError):
        inotify.add(queue, str(tmp_path / "file"), inotify.IN_CREATE)
    os.close(queue)
