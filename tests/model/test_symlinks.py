"""Where paths lead, as the kernel says it."""

import os
from pathlib import Path

import pytest

from pinfold.model.symlinks import MOST_LINKS, walk_path

LINKS = {
    "beside": "d/e",
    "whole": "{top}/d/e",
    "over": "beside/../f",
    "d/up": "../d/e",
    "nowhere": "absent/too",
    "d/here": ".",
}


@pytest.fixture
def top(tmp_path: Path) -> str:
    top = os.path.realpath(tmp_path)
    os.makedirs(f"{top}/d/e")
    Path(f"{top}/d/f").touch()
    for name, target in LINKS.items():
        os.symlink(target.format(top=top), f"{top}/{name}")
    return top


@pytest.mark.parametrize(
    ("path", "passed"),
    [
        ("d/e", "d d/e"),
        ("./d//e/.", "d d/e"),
        ("d/../d", "d . d"),
        # over links
        ("beside", "beside d d/e"),
        ("beside/..", "beside d d/e d"),
        ("over", "over beside d d/e d d/f"),
        ("d/up/x", "d d/up . d d/e d/e/x"),
        ("d/here/f", "d d/here d/f"),
        # what is not there
        ("absent/x", "absent absent/x"),
        ("nowhere", "nowhere absent absent/too"),
    ],
)
def test_the_way(top: str, path: str, passed: str) -> None:
    steps = [step for step in walk_path(f"{top}/{path}") if f"{step.place}/".startswith(f"{top}/")]
    assert [os.path.relpath(step.place, top) for step in steps][1:] == passed.split()
    assert [step.is_link for step in steps] == [os.path.islink(step.place) for step in steps]
    assert steps[-1].place == os.path.realpath(f"{top}/{path}")


def test_a_target_that_is_absolute_starts_at_the_root(top: str) -> None:
    places = [step.place for step in walk_path(f"{top}/whole")]
    assert places[places.index(f"{top}/whole") + 1] == f"/{top.split('/')[1]}"
    assert places[-1] == f"{top}/d/e"


@pytest.mark.parametrize("path", ["", "/", "//", "/..", "/./"])
def test_the_root(path: str) -> None:
    assert {step.place for step in walk_path(path)} == {"/"}


def test_a_path_that_no_call_takes_has_no_links() -> None:
    assert [step.place for step in walk_path("/a\0b/c")] == ["/", "/a\0b", "/a\0b/c"]


def test_as_many_links_are_followed_as_the_kernel_follows(top: str) -> None:
    """One more, and the way ends at it."""
    os.symlink("d/e", f"{top}/1")
    for number in range(2, MOST_LINKS + 2):
        os.symlink(str(number - 1), f"{top}/{number}")
    os.stat(f"{top}/{MOST_LINKS}")
    *_, last = walk_path(f"{top}/{MOST_LINKS}")
    assert last.place == f"{top}/d/e"
    with pytest.raises(OSError, match="Too many levels"):
        os.stat(f"{top}/{MOST_LINKS + 1}")
    *_, last = walk_path(f"{top}/{MOST_LINKS + 1}")
    assert last == (f"{top}/1", True, True)
