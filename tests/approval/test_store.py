"""The file of answers: the user's alone, replaced in one step, and believed only as it was written."""

import os
import threading
from pathlib import Path

import pytest

from pinfold.approval.broker import Desk
from pinfold.approval.store import MOST, Store
from pinfold.model.permission import Answer
from tests.approval.questions import Footing, Person, question
from tests.patience import PATIENCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/approvals.json"


def remember(path: Path, **given: str) -> Desk:
    desk = Desk([Person(Answer.ALWAYS)], Footing(), Store(str(path)))
    desk.ask(question(**given))
    return desk


def test_it_is_for_its_user_alone(path: Path) -> None:
    remember(path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["approvals.json"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 3, "answers": []}',
        b'{"version": 1, "answers": 1}',
        b'{"version": 1, "answers": [{"id": 1}]}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_told_and_nobody_is_remembered(path: Path, text: bytes) -> None:
    remember(path)
    path.write_bytes(text)
    person = Person(Answer.ALWAYS)
    desk = Desk([person], Footing(), Store(str(path)))
    for run in ("1", "2"):
        assert desk.ask(question(run=run)).answer is Answer.ALWAYS
    assert len(person.asked) == 1, "it is remembered for as long as the session lasts"
    assert "earlier answers do not count" in desk.notices[0] and "revoke --all" in desk.notices[0]
    assert path.read_bytes() == text, "what somebody may want to look at is not written over"
    store = Store(str(path))
    assert store.remove_all() and store.answers() == () and not store.trouble


def test_a_file_that_others_could_write_is_not_believed(path: Path) -> None:
    remember(path)
    path.chmod(0o620)
    store = Store(str(path))
    assert store.answers() == () and "you alone can write" in store.trouble


def test_a_link_or_a_fifo_is_not_read(path: Path, tmp_path: Path) -> None:
    remember(path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert Store(str(path)).answers() == ()
    path.unlink()
    os.mkfifo(path, 0o600)
    store = Store(str(path))
    assert store.answers() == () and store.trouble


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    desk = remember(tmp_path / "state/approvals.json")
    assert "cannot be" in desk.notices[0]
    assert desk.ask(question()).remembered, "it holds as long as the session lasts"


def test_what_could_not_be_written_keeps_nothing_later_from_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    remember(path, command="before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        desk = remember(path, command="meanwhile")
        assert "No space left on device" in " ".join(desk.notices)
    desk.ask(question(command="after"))
    assert [each.subject.command for each in Store(str(path)).answers()] == ["before", "after"]


def test_a_text_that_json_cannot_carry_is_kept_for_the_session(path: Path) -> None:
    desk = remember(path, command="touch \udcff")
    assert desk.ask(question(command="touch \udcff")).remembered
    assert desk.notices and Store(str(path)).answers() == ()


def test_many_write_at_once_and_none_is_lost(path: Path) -> None:
    threads = [threading.Thread(target=remember, args=(path,), kwargs={"command": str(n)}) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert {each.subject.command for each in Store(str(path)).answers()} == {str(n) for n in range(16)}


def test_what_one_process_adds_another_sees(path: Path) -> None:
    store = Store(str(path))
    assert store.answers() == ()
    remember(path)
    assert len(store.answers()) == 1
    assert store.remove([store.answers()[0].id]) and Store(str(path)).answers() == ()


def test_of_too_many_the_oldest_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST >= 100
    monkeypatch.setattr("pinfold.approval.store.MOST", 3)
    for number in range(5):
        remember(path, command=str(number))
    assert [each.subject.command for each in Store(str(path)).answers()] == ["2", "3", "4"]
