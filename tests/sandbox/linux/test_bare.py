"""Which names make a directory a repository, in whatever spelling a file system takes for them."""

import os
from pathlib import Path

import pytest

from pinfold.model.names import folded
from pinfold.model.repositories import is_repository
from pinfold.sandbox.linux.bare import completes
from pinfold.sandbox.linux.spots import Place, Spot


@pytest.mark.parametrize("name", ["refs", "REFS", "re\u200cfs", "re\ufe0ffs", "refs/"])
def test_the_last_name_completes_it(name: str, tmp_path: Path) -> None:
    for other in ("HEAD", "objects"):
        (tmp_path / other).mkdir()
    assert _is_completed(tmp_path, name)
    (tmp_path / "HEAD").rmdir()
    assert not _is_completed(tmp_path, name)


def test_one_that_is_called_git_may_have_them_all(tmp_path: Path) -> None:
    inside = tmp_path / ".git"
    for other in ("HEAD", "objects"):
        (inside / other).mkdir(parents=True)
    assert not _is_completed(inside, "refs")


def test_a_repository_is_one_in_every_spelling() -> None:
    assert is_repository({folded(name) for name in ("Head", "OBJECTS", "re\u200cfs")})
    assert not is_repository({"head", "objects"})


def _is_completed(directory: Path, name: str) -> bool:
    place = Place(str(directory), made_by_warden=True, free=False, inside=None, children={}, in_git=False)
    held = os.open(directory, os.O_PATH)
    try:
        return bool(completes(Spot(held, place, os.fsencode(name), folded(name.rstrip("/")))))
    finally:
        os.close(held)
