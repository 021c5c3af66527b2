"""Which names make a directory a repository, in every spelling that a file system may accept for them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinfold.model.git_repositories import COMPLETING
from pinfold.model.protected_names import Match, NameMatcher, folded
from pinfold.sandbox.linux.warden.name_check import completes, protected_inside
from pinfold.sandbox.linux.warden.paths import ParentDirectory, PathTarget


@pytest.mark.parametrize("name", ["refs", "REFS", "re\u200cfs", "re\ufe0ffs", "refs/"])
def test_the_last_name_completes_a_repository(name: str, tmp_path: Path) -> None:
    for other in ("HEAD", "objects"):
        (tmp_path / other).mkdir()
    assert _is_completed(tmp_path, name)
    (tmp_path / "HEAD").rmdir()
    assert not _is_completed(tmp_path, name)


def test_a_directory_called_git_may_have_all_names(tmp_path: Path) -> None:
    inside = tmp_path / ".git"
    for other in ("HEAD", "objects"):
        (inside / other).mkdir(parents=True)
    assert not _is_completed(inside, "refs")


def test_a_moved_repository_is_recognized_in_every_spelling(tmp_path: Path) -> None:
    for name in ("Head", "OBJECTS"):
        (tmp_path / "d" / name).mkdir(parents=True)
    with _spot(tmp_path, "d", in_git=True) as target:
        assert not protected_inside(NameMatcher((), (str(tmp_path),)), target, target)
        (tmp_path / "d" / "re\u200cfs").mkdir()
        assert protected_inside(NameMatcher((), (str(tmp_path),)), target, target) == Match(COMPLETING)


def _is_completed(directory: Path, name: str) -> bool:
    with _spot(directory, name) as target:
        return bool(completes(target))


@contextmanager
def _spot(directory: Path, name: str, *, in_git: bool = False) -> Iterator[PathTarget]:
    parent = ParentDirectory(
        str(directory), warden_creates=True, caller_creates=False, protection=None, children={}, in_git=in_git
    )
    held = os.open(directory, os.O_PATH)
    try:
        yield PathTarget(held, parent, os.fsencode(name), folded(name.rstrip("/")))
    finally:
        os.close(held)
