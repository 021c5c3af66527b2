"""Where the ignore files of a workspace are, as it is and after it changed."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.probe_runner import USERS, run_at_home
from tests.session.listed_dirs import note_entries, note_listings
from tests.workspace.test_scan import TICK

from pinfold.model.errors import PolicyError
from pinfold.policy.ignore import Ignore
from pinfold.session import Session
from pinfold.settings.files import mark
from pinfold.workspace import dir_cache, ignore_files, watcher
from pinfold.workspace.ignore_files import IgnoreFiles

NAMES = (".pinfoldignore",)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose directories have settled."""
    monkeypatch.setattr(dir_cache, "SETTLED", 0)
    for number in range(20):
        (tmp_path / f"d{number}/sub").mkdir(parents=True)
    time.sleep(TICK)
    return tmp_path


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that have been listed."""
    return note_listings(monkeypatch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is."""
    now = [0.0]
    monkeypatch.setattr(ignore_files, "monotonic", lambda: now[0])
    return now


def patterns(files: IgnoreFiles) -> list[tuple[str, ...]]:
    return list(files.mapping(NAMES).values())


def test_what_others_fill_is_passed_over(tmp_path: Path) -> None:
    for directory in ("node_modules/x", ".git/x", "src"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / ".pinfoldignore").write_text("a\n")
    found = IgnoreFiles((str(tmp_path),)).mapping(NAMES)
    assert [Path(directory).name for directory in found] == ["src"]


def test_one_that_appears_is_found_by_listing_its_directory_alone(work: Path, listed: list[str]) -> None:
    files = IgnoreFiles((str(work),))
    assert patterns(files) == [] and len(listed) == 41
    listed.clear()
    (work / "d7/.pinfoldignore").write_text("a\n")
    files.look_around(NAMES)
    assert patterns(files) == [("a",)]
    assert listed == [f"{work}/d7"]
    (work / "d7").rename(work / "d21")
    files.look_around(NAMES)
    assert [Path(directory).name for directory in files.mapping(NAMES)] == ["d21"]


def test_one_that_goes_is_found(work: Path) -> None:
    file = work / "d7/sub/.pinfoldignore"
    file.write_text("a\n")
    files = IgnoreFiles((str(work),))
    assert patterns(files) == [("a",)]
    file.unlink()
    assert patterns(files) == []


def test_a_directory_that_changed_just_now_is_listed_again(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next change may have the same time."""
    monkeypatch.setattr(dir_cache, "SETTLED", 1 << 62)
    files = IgnoreFiles((str(tmp_path),))
    assert patterns(files) == []
    files.look_around(NAMES)
    assert listed == [str(tmp_path)] * 2


def test_who_asks_looks_around_where_nobody_has(work: Path, clock: list[float]) -> None:
    files = IgnoreFiles((str(work),))
    assert patterns(files) == []
    (work / "d7/.pinfoldignore").write_text("a\n")
    assert patterns(files) == []  # within the seconds that docs/sandbox.md tells
    clock[0] += ignore_files.SECONDS + 0.1
    assert patterns(files) == [("a",)]


def test_nobody_looks_for_who_is_about_to_come_again(work: Path, clock: list[float]) -> None:
    """Whoever looks around has other things to do on each round, and is never back in just those seconds."""
    files = IgnoreFiles((str(work),))
    assert patterns(files) == []
    clock[0] += 3.0
    files.look_around(NAMES)
    (work / "d7/.pinfoldignore").write_text("a\n")
    clock[0] += 3.0
    assert patterns(files) == []
    files.look_around(NAMES)
    assert patterns(files) == [("a",)]


def test_who_does_not_come_again_is_not_waited_for(work: Path, clock: list[float]) -> None:
    files = IgnoreFiles((str(work),))
    assert patterns(files) == []
    clock[0] += 3.0
    files.look_around(NAMES)
    (work / "d7/.pinfoldignore").write_text("a\n")
    clock[0] += 6.1
    assert patterns(files) == [("a",)]


def test_where_none_are_called_so_nothing_is_looked_through(work: Path, listed: list[str]) -> None:
    files = IgnoreFiles((str(work),))
    assert files.mapping(()) == {} and files.mapping(()) is files.mapping(())
    assert listed == []


def test_who_asks_for_names_gets_those(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though somebody else asks for others meanwhile."""
    (work / ".pinfoldignore").write_text("a\n")
    (work / ".cursorignore").write_text("b\n")
    files = IgnoreFiles((str(work),))
    assert patterns(files) == [("a",)]
    meanwhile = [lambda: files.mapping((".cursorignore",))]

    def asked(path: str) -> tuple[int, ...] | None:
        if meanwhile:
            meanwhile.pop()()
        return mark(path)

    monkeypatch.setattr(ignore_files, "mark", asked)
    assert patterns(files) == [("a",)]


def test_other_names_are_looked_for_at_once(work: Path) -> None:
    (work / "d7/.cursorignore").write_text("a\n")
    files = IgnoreFiles((str(work),))
    assert patterns(files) == []
    assert list(files.mapping((*NAMES, ".cursorignore")).values()) == [("a",)]
    assert patterns(files) == []


def test_one_that_cannot_be_read_is_told_to_who_asks(work: Path) -> None:
    files = IgnoreFiles((str(work),))
    assert patterns(files) == []
    link = work / "d7/.pinfoldignore"
    link.symlink_to(".pinfoldignore")
    files.look_around(NAMES)
    for _ in range(2):
        with pytest.raises(PolicyError, match="cannot be read"):
            patterns(files)
    link.unlink()
    assert patterns(files) == []


@pytest.mark.parametrize("put_there", ["another directory", "a link to one"])
def test_what_is_listed_is_not_remembered_of_another(
    work: Path, monkeypatch: pytest.MonkeyPatch, put_there: str
) -> None:
    """A command may have put it there between two looks, and taken it away again."""
    (work / "d7/sub/.pinfoldignore").write_text("a\n")
    time.sleep(TICK)
    moments: list[str] = []

    def swapped(look: Callable[..., object]) -> Callable[..., object]:
        def meanwhile(path: object, *how: int) -> object:
            if path != str(work / "d7/sub") or moments:
                return look(path, *how)
            moments.append("now")
            (work / "d7").rename(work / "aside")
            (work / "d7").symlink_to("d8") if "link" in put_there else (work / "d8").rename(work / "d7")
            found = look(path, *how)
            (work / "d7").unlink() if "link" in put_there else (work / "d7").rename(work / "d8")
            (work / "aside").rename(work / "d7")
            return found

        return meanwhile

    for look in ("open", "scandir"):
        monkeypatch.setattr(os, look, swapped(getattr(os, look)))
    files = IgnoreFiles((str(work),))
    files.mapping(NAMES)
    assert moments
    files.look_around(NAMES)
    assert patterns(files) == [("a",)]


def test_of_one_directory_no_more_is_taken_than_of_all(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        (work / f"all/{number}").mkdir(parents=True)
    monkeypatch.setattr(ignore_files, "MOST_DIRECTORIES", 19)
    taken = note_entries(monkeypatch, ignore_files)
    files = IgnoreFiles((f"{work}/all",))
    files.mapping((".pinfoldignore",))
    assert len(taken) == 20 and "19 directories only" in files.notices[0]


def test_long_paths_do_not_take_all_memory(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = IgnoreFiles((str(work),))
    assert patterns(files) == []
    monkeypatch.setattr(ignore_files, "MOST_TEXT", 40 * len(str(work)))
    files.look_around(NAMES)
    with pytest.raises(PolicyError, match="too many long paths"):
        patterns(files)


def a_fenced_session_looks_around_beside_its_commands() -> None:
    watcher.SECONDS = 0.02
    ignore_files.SECONDS = 1e9  # so that nobody but the lookout looks
    os.mkdir("sub")
    with Session(["."], settings={}) as session:
        session.run("true").check()
        Path("sub/.pinfoldignore").write_text("secret\n")
        until = time.monotonic() + PATIENCE
        while not session.policy.ignore_mapping and time.monotonic() < until:
            time.sleep(0.01)
        assert list(session.policy.ignore_mapping.values()) == [("secret",)]
        Path("sub/secret").write_text("x")
        assert "x" not in session.run("cat sub/secret").stdout


def what_cannot_be_listed_is_hidden_until_it_can() -> None:
    ignore_files.SECONDS = 1e9  # so that nobody looks but where this is said
    names = ("closed", "od[d] *", "a/only listed", os.fsdecode(b"no \xff text"))
    for name in names:
        os.makedirs(f"{name}/sub")
        Path(name, "sub/.pinfoldignore").write_text("secret\n")
        os.chmod(name, 0o400 if "listed" in name else 0)
    files = IgnoreFiles((os.getcwd(),))
    ignore = Ignore(files.mapping(NAMES))
    is_open = os.access("closed/sub", os.X_OK)  # to root
    for name in names:
        place = os.path.abspath(name)
        assert ignore.is_ignored(f"{place}/sub/else") is not is_open
        assert not ignore.is_ignored(f"{place} too")
        os.chmod(name, 0o700)
    files.look_around(NAMES)
    assert sorted(map(os.path.basename, files.mapping(NAMES))) == ["sub"] * len(names)


def what_is_closed_as_a_whole_is_told_to_who_asks() -> None:
    os.mkdir("closed")
    os.chmod("closed", 0)
    if os.access("closed", os.R_OK):  # to root
        return
    work = os.getcwd()
    files = IgnoreFiles((work,))
    ignore_files.MOST_CLOSED = 0
    with pytest.raises(PolicyError, match="more than 0 directories cannot be listed"):
        files.mapping(NAMES)
    ignore_files.MOST_CLOSED = 1
    for mode in (0, 0o100, 0o400):
        files.mapping(NAMES)
        os.chmod(work, mode)
        files.look_around(NAMES)
        with pytest.raises(PolicyError, match=r"cannot be (listed|entered)"):
            files.mapping(NAMES)
        os.chmod(work, 0o700)


@pytest.mark.parametrize("user", USERS)
def test_what_cannot_be_listed_is_hidden_until_it_can(user: str) -> None:
    run_at_home(user, "what_cannot_be_listed_is_hidden_until_it_can", "tests.workspace.test_ignore_files")


@pytest.mark.parametrize("user", USERS)
def test_what_is_closed_as_a_whole_is_told_to_who_asks(user: str) -> None:
    run_at_home(user, "what_is_closed_as_a_whole_is_told_to_who_asks", "tests.workspace.test_ignore_files")


@pytest.mark.parametrize("user", USERS)
def test_a_fenced_session_looks_around_beside_its_commands(user: str) -> None:
    run_at_home(
        user, "a_fenced_session_looks_around_beside_its_commands", "tests.workspace.test_ignore_files"
    )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
