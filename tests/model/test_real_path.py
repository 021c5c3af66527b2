"""Where paths lead: what the kernel walks is what `os.path.realpath` would say."""

import os
from pathlib import Path

import pytest

from pinfold.model.symlinks import LONGEST_PATH, REMOVED, real_path

FILES = ("plain", f"named{REMOVED}", "new\nline", os.fsdecode(b"byte\xff"))
LINKS = ("there", "through/plain", "nowhere", "loop")
OTHERS = ("missing/below", "plain/", "plain/..", "through/../plain", ".", "there/../..", "closed/in")


@pytest.mark.parametrize("name", [*FILES, *LINKS, *OTHERS])
def test_it_is_where_the_system_says(name: str, tmp_path: Path) -> None:
    for each in FILES:
        (tmp_path / each).write_text("")
    (tmp_path / "there").symlink_to("plain")
    (tmp_path / "through").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "closed").mkdir(mode=0)
    path = f"{tmp_path}/{name}"
    assert real_path(path) == os.path.realpath(path)


def test_what_has_no_path_any_more_leads_where_its_link_says(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with open(tmp_path / "gone", "w") as file:
        os.unlink(file.name)
        for descriptor in (file.fileno(), reading):
            path = f"/proc/self/fd/{descriptor}"
            assert real_path(path) == os.path.realpath(path)
    os.close(reading)
    os.close(writing)


def test_what_no_call_would_take_leads_where_it_says() -> None:
    assert real_path("/a/../" + "b/" * LONGEST_PATH) == "/" + "/".join("b" * LONGEST_PATH)
    assert real_path("/a/../b\0") == "/b\0"


def test_a_directory_that_is_gone_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert real_path(".") == "."


def test_a_chain_of_links_longer_than_pythons_stack_leads_to_itself(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"{number}").symlink_to(f"{number + 1}")
    assert real_path(f"{tmp_path}/x/../0") == f"{tmp_path}/0"
