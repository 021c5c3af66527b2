"""The granter makes the change that was described, or nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.sandbox.linux.granter.main import Granter
from pinfold.sandbox.linux.protocol.file_change import (
    CHANGED,
    ChangedEntry,
    CheckChange,
    FileChange,
    MakeChange,
    file_id,
)
from pinfold.sandbox.linux.protocol.message import decode, encode

WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def seen(path: Path) -> ChangedEntry:
    status = path.parent.stat()
    file = file_id(path.lstat()) if os.path.lexists(path) else None
    return ChangedEntry(str(path.parent), (status.st_dev, status.st_ino), os.fsencode(path.name), file)


def change(operation: str, *paths: Path, numbers: tuple[int, ...] = (0,), text: bytes = b"") -> FileChange:
    return FileChange(operation, tuple(map(seen, paths)), (*numbers, 0o022), text)


def test_a_change_travels_as_plain_values(tmp_path: Path) -> None:
    one = change("rename", tmp_path / "b", tmp_path / "a")
    assert decode(encode(one)) == one
    assert one.paths == (str(tmp_path / "b"), str(tmp_path / "a"))


def test_it_opens_with_the_callers_flags_and_umask(tmp_path: Path) -> None:
    error, made = Granter().answer(MakeChange(change("open", tmp_path / "new", numbers=(WRITE, 0o666))))
    assert error == 0 and made is not None
    os.write(made, b"x")
    os.close(made)
    assert (tmp_path / "new").read_text() == "x" and (tmp_path / "new").stat().st_mode & 0o777 == 0o644


def test_a_name_that_was_free_must_be_free(tmp_path: Path) -> None:
    for operation, numbers in (("open", (WRITE, 0o666)), ("mkdir", (0o777,)), ("symlink", (0,))):
        wanted = change(operation, tmp_path / operation, numbers=numbers, text=b"x")
        (tmp_path / operation).symlink_to(tmp_path / "victim")
        assert Granter().answer(MakeChange(wanted)) == (CHANGED, None)
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
        wanted = change(operation, file, numbers=(WRITE, 0) if operation == "open" else (0,))
        kept = file.open()  # its number is not another's while it is held
        file.unlink()
        swap()
        assert Granter().answer(MakeChange(wanted)) == (CHANGED, None)
        assert victim.read_text() == "victim" and os.path.lexists(file)
        kept.close()
        file.rmdir() if file.is_dir() else file.unlink()


def test_the_directory_must_be_the_same(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    wanted = change("open", tmp_path / "d/new", numbers=(WRITE, 0o666))
    (tmp_path / "d").rename(tmp_path / "moved")
    swaps: list[Callable[[], object]] = [
        lambda: (tmp_path / "d").symlink_to("moved"),
        lambda: (tmp_path / "d").mkdir(),
    ]
    for swap in swaps:
        swap()
        assert Granter().answer(MakeChange(wanted)) == (CHANGED, None)
        assert Granter().answer(CheckChange(wanted)) == (CHANGED, None)
        (tmp_path / "d").unlink() if (tmp_path / "d").is_symlink() else (tmp_path / "d").rmdir()
    assert not list((tmp_path / "moved").iterdir())


def test_a_rename_moves_the_file_that_was_seen(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    assert Granter().answer(MakeChange(change("rename", target, source))) == (0, None)
    assert os.listdir(tmp_path) == ["target"] and target.read_text() == "new"
    source.write_text("newer")
    wanted = change("rename", target, source)
    source.rename(tmp_path / "kept")
    source.symlink_to("kept")
    assert Granter().answer(MakeChange(wanted)) == (CHANGED, None)
    assert target.read_text() == "new" and sorted(os.listdir(tmp_path)) == ["kept", "source", "target"]


def test_a_directory_is_never_opened_nor_moved(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for wanted in (
        change("open", tmp_path / "d", numbers=(os.O_RDONLY, 0)),
        change("rename", tmp_path / "e", tmp_path / "d"),
        change("link", tmp_path / "e", tmp_path / "d"),
    ):
        assert Granter().answer(MakeChange(wanted)) == (CHANGED, None)


def test_nothing_is_held_afterwards(tmp_path: Path) -> None:
    granter = Granter()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
        granter.answer(MakeChange(change("unlink", tmp_path / name)))
        granter.answer(MakeChange(change("unlink", tmp_path / name)))
    assert len(os.listdir("/proc/self/fd")) == before and not granter.held
