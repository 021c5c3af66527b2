"""The hand does what was looked at, or nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.sandbox.linux.granter.main import Hand
from pinfold.sandbox.linux.protocol.file_change import CHANGED, LIKELY, Deed, End, parse_deed, thing_of

DO = "do"
WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def seen(path: Path) -> End:
    status = path.parent.stat()
    thing = thing_of(path.lstat()) if os.path.lexists(path) else None
    return End(str(path.parent), (status.st_dev, status.st_ino), os.fsencode(path.name), thing)


def deed(operation: str, *paths: Path, numbers: tuple[int, ...] = (0,), text: bytes = b"") -> Deed:
    return Deed(operation, tuple(map(seen, paths)), (*numbers, 0o022), text)


def test_a_deed_travels_as_plain_values(tmp_path: Path) -> None:
    one = deed("rename", tmp_path / "b", tmp_path / "a")
    assert parse_deed(one.plain()) == one  # type: ignore[arg-type]
    assert one.paths == (str(tmp_path / "b"), str(tmp_path / "a"))


def test_it_opens_with_the_callers_flags_and_umask(tmp_path: Path) -> None:
    error, made = Hand().answer(DO, deed("open", tmp_path / "new", numbers=(WRITE, 0o666)))
    assert error == 0 and made is not None
    os.write(made, b"x")
    os.close(made)
    assert (tmp_path / "new").read_text() == "x" and (tmp_path / "new").stat().st_mode & 0o777 == 0o644


def test_a_name_that_was_free_must_be_free(tmp_path: Path) -> None:
    for operation, numbers in (("open", (WRITE, 0o666)), ("mkdir", (0o777,)), ("symlink", (0,))):
        wanted = deed(operation, tmp_path / operation, numbers=numbers, text=b"x")
        (tmp_path / operation).symlink_to(tmp_path / "victim")
        assert Hand().answer(DO, wanted) == (CHANGED, None)
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("operation", ["open", "truncate", "chmod", "unlink"])
def test_what_was_there_must_be_the_same(tmp_path: Path, operation: str) -> None:
    file, victim = tmp_path / "file", tmp_path / "victim"
    swaps: list[Callable[[], object]] = [
        lambda: file.symlink_to(victim),
        lambda: os.link(victim, file),
        lambda: file.mkdir(),
    ]
    for swap in swaps:
        file.write_text("old")
        victim.write_text("victim")
        wanted = deed(operation, file, numbers=(WRITE, 0) if operation == "open" else (0,))
        kept = file.open()  # its number is not another's while it is held
        file.unlink()
        swap()
        assert Hand().answer(DO, wanted) == (CHANGED, None)
        assert victim.read_text() == "victim" and os.path.lexists(file)
        kept.close()
        file.rmdir() if file.is_dir() else file.unlink()


def test_the_directory_must_be_the_same(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    wanted = deed("open", tmp_path / "d/new", numbers=(WRITE, 0o666))
    (tmp_path / "d").rename(tmp_path / "moved")
    swaps: list[Callable[[], object]] = [
        lambda: (tmp_path / "d").symlink_to("moved"),
        lambda: (tmp_path / "d").mkdir(),
    ]
    for swap in swaps:
        swap()
        assert Hand().answer(DO, wanted) == (CHANGED, None)
        assert Hand().answer(LIKELY, wanted) == (CHANGED, None)
        (tmp_path / "d").unlink() if (tmp_path / "d").is_symlink() else (tmp_path / "d").rmdir()
    assert not list((tmp_path / "moved").iterdir())


def test_a_rename_moves_the_file_that_was_seen(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    assert Hand().answer(DO, deed("rename", target, source)) == (0, None)
    assert os.listdir(tmp_path) == ["target"] and target.read_text() == "new"
    source.write_text("newer")
    wanted = deed("rename", target, source)
    source.rename(tmp_path / "kept")
    source.symlink_to("kept")
    assert Hand().answer(DO, wanted) == (CHANGED, None)
    assert target.read_text() == "new" and sorted(os.listdir(tmp_path)) == ["kept", "source", "target"]


def test_a_directory_is_never_opened_nor_moved(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for wanted in (
        deed("open", tmp_path / "d", numbers=(os.O_RDONLY, 0)),
        deed("rename", tmp_path / "e", tmp_path / "d"),
        deed("link", tmp_path / "e", tmp_path / "d"),
    ):
        assert Hand().answer(DO, wanted) == (CHANGED, None)


def test_nothing_is_held_afterwards(tmp_path: Path) -> None:
    hand = Hand()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
        hand.answer(DO, deed("unlink", tmp_path / name))
        hand.answer(DO, deed("unlink", tmp_path / name))
    assert len(os.listdir("/proc/self/fd")) == before and not hand.held
