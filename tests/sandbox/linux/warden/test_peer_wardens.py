"""Wardens that tell each other which files to protect, without pens around them."""

import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the fence is Linux's", allow_module_level=True)

from pinfold.sandbox.linux.init.session_root import OWN
from pinfold.sandbox.linux.protocol import pen_registry
from pinfold.sandbox.linux.protocol.pen_registry import (
    ANYWHERE,
    BUILDER,
    LONGEST_NAME,
    WARDEN,
    building,
    fresh_socket,
    mark_of,
    may_write_below,
    take_name,
)
from pinfold.sandbox.linux.warden import peer_wardens, writable_mounts
from pinfold.sandbox.linux.warden.peer_wardens import DONE, PROTECT, REQUEST_ID_BYTES, PeerWardens
from pinfold.sandbox.linux.warden.writable_mounts import HeldMount, WritableMounts

LONG = 30.0


@pytest.fixture
def protected(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the wardens protect; they see only each other, and do not run out of time."""
    here = os.urandom(4).hex().encode()
    found: list[bytes] = []
    monkeypatch.setattr(pen_registry, "_prefix", lambda kind: b"@pinfold-test/%s/%s/" % (here, kind))
    monkeypatch.setattr(WritableMounts, "hold", lambda self, proc, roots: self.marks.append(ANYWHERE))

    def protect(mounts: WritableMounts, asked: bytes) -> bool:
        found.append(asked[asked.index(b"/") :])
        return True

    monkeypatch.setattr(peer_wardens, "_protect", protect)
    monkeypatch.setattr(peer_wardens, "PATIENCE", LONG)
    return found


@contextmanager
def wardens(count: int) -> Iterator[list[PeerWardens]]:
    made = [PeerWardens() for _ in range(count)]
    proc = os.open("/proc", os.O_PATH)
    for each in made:
        each.join(proc, {}, {})
    os.close(proc)
    yield made
    for each in made:
        os.close(each.names)
        each.socket.close()


def test_a_waiting_warden_goes_on_answering(protected: list[bytes]) -> None:
    with wardens(3) as all_of_them:
        results: list[bool] = []
        telling = [
            threading.Thread(target=lambda n=n, one=one: results.append(one.all_protect(f"/{n}")))
            for n, one in enumerate(all_of_them[:2])
        ]
        for thread in telling:
            thread.start()
        while any(thread.is_alive() for thread in telling):
            all_of_them[2].poll.poll(1)
            all_of_them[2].answer()
            for each, thread in zip(all_of_them, telling, strict=False):
                if not thread.is_alive():
                    each.answer()
        assert results == [True, True]
        assert sorted(protected) == [b"/0", b"/0", b"/1", b"/1"]


def test_many_answers_arrive(protected: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket has room for only a few answers."""
    monkeypatch.setattr(peer_wardens, "PATIENCE", 5.0)
    with wardens(50) as (one, *others):
        send = one._send

        def send_and_have_it_answered(name: bytes, message: bytes) -> bool:
            is_sent = send(name, message)
            next(each for each in others if each.own_name == name).answer()
            return is_sent

        monkeypatch.setattr(one, "_send", send_and_have_it_answered)
        assert one.all_protect("/x")
        assert protected == [b"/x"] * 49


def test_an_ended_warden_is_not_waited_for(protected: list[bytes]) -> None:
    with wardens(1) as (one,):
        gone = fresh_socket()
        take_name(gone, WARDEN)
        results: list[bool] = []
        telling = threading.Thread(target=lambda: results.append(one.all_protect("/x")))
        telling.start()
        assert select.select([gone], [], [], LONG)[0], "it was told"
        gone.close()
        telling.join()
        assert results == [True]


def test_a_builder_that_starts_later_is_not_waited_for(protected: list[bytes]) -> None:
    """Otherwise there might always be one more."""
    with wardens(1) as (one,):
        told, first, later = fresh_socket(), fresh_socket(), fresh_socket()
        take_name(told, WARDEN)
        take_name(first, BUILDER)
        telling = threading.Thread(target=lambda: results.append(one.all_protect("/x")))
        results: list[bool] = []
        telling.start()
        assert select.select([told], [], [], LONG)[0]
        take_name(later, BUILDER)
        told.close()
        telling.join(0.1)
        assert telling.is_alive()
        first.close()
        telling.join()
        assert results == [True]
        later.close()


def test_a_late_answer_does_not_count(protected: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_wardens, "PATIENCE", 0.0)
    with wardens(1) as (one,):
        slow = fresh_socket()
        take_name(slow, WARDEN)
        assert not one.all_protect("/x")
        message, sender = slow.recvfrom(99)
        assert message[:1] == PROTECT and message.endswith(b"/x")
        slow.sendto(DONE + message[1 : 1 + REQUEST_ID_BYTES], sender)
        monkeypatch.setattr(peer_wardens, "PATIENCE", 0.05)
        assert not one.all_protect("/x")
        slow.close()
        assert one.all_protect("/x")


def test_a_warden_is_asked_only_about_what_lies_below_its_writable_directories(
    protected: list[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_wardens, "PATIENCE", 0.05)
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.mkdir()
    others.mkdir()
    with wardens(1) as (one,):
        for writable, is_asked in (
            ((others.stat(),), False),
            ((), False),
            ((others.stat(), mine.stat()), True),
            ((tmp_path.stat(),), True),
        ):
            silent = fresh_socket()
            take_name(silent, WARDEN, map(mark_of, writable))
            assert one.all_protect(str(mine / "config")) is not is_asked
            silent.close()


def test_a_host_is_waited_for_only_where_the_pen_that_it_builds_may_write(
    protected: list[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_wardens, "PATIENCE", 0.05)
    mine, others = tmp_path / "mine", tmp_path / "others"
    for new in (mine / "r/.git", mine / "shared/.git/modules", mine / "bare/objects/r/.git", others):
        new.mkdir(parents=True)
    with wardens(1) as (one,):
        for writable, path, is_waited_for in (
            (others, mine / "r/.git/config", False),
            (mine, mine / "r/.git/config", True),
            (mine / "r/.git/new", mine / "r/.git/config", True),
            # A working tree in `others` may lead there.
            (others, mine / "shared/.git/config", True),
            (others, mine / "shared/.git/modules/r/config", True),
            (others, mine / "bare/objects/r/.git/config", True),
        ):
            path.parent.mkdir(exist_ok=True)
            with building([str(writable)]):
                assert one.all_protect(str(path)) is not is_waited_for, path
            assert one.all_protect(str(path))
        one.mounts.own = {mark_of(mine.stat())}
        with building([str(others)]):
            assert not one.all_protect(str(mine / "r/.git/config"))


def test_a_name_without_room_for_all_marks_stands_for_every_directory(protected: list[bytes]) -> None:
    marks = [b"%04x" % number for number in range(LONGEST_NAME)]
    few, many, none = fresh_socket(), fresh_socket(), fresh_socket()
    name = take_name(few, WARDEN, marks[:2])
    assert may_write_below(name, marks[1:]) and not may_write_below(name, marks[2:])
    assert may_write_below(take_name(many, WARDEN, marks), [b"ffff"])
    assert not may_write_below(take_name(none, WARDEN, ()), marks)
    for each in (few, many, none):
        each.close()


def test_a_mark_is_never_found_across_two_others(protected: list[bytes]) -> None:
    socket = fresh_socket()
    assert not may_write_below(take_name(socket, WARDEN, [b"1234", b"5678"]), [b"3456"])
    socket.close()


def test_a_file_is_found_below_each_mount_whose_directory_lies_above_it(tmp_path: Path) -> None:
    """Though the directory has another path here."""
    (tmp_path / "root/sub").mkdir(parents=True)
    config = tmp_path / "root/sub/config"
    config.touch()
    marks = [mark_of(config.parent.stat()), mark_of(config.parent.parent.stat())]
    mounts = WritableMounts()
    root = os.open(tmp_path / "root", os.O_PATH)
    for mark, is_found in ((marks[1], True), (marks[0], False), (b"none", False)):
        mounts.held = [HeldMount("/elsewhere", root, mark)]
        found = [*mounts.open_all("/not/sub/config", marks)]
        assert [os.path.samestat(os.fstat(each), config.stat()) for each in found] == [True] * is_found
        for each in found:
            os.close(each)
    proc = os.open("/proc", os.O_PATH)
    assert mounts.current_path(proc, "/elsewhere/sub") == str(config.parent)
    for each in (proc, root):
        os.close(each)


def test_a_mount_that_cannot_be_opened_leaves_out_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pen gets every request then, and finds what lies in its other mounts."""
    points = [(str(tmp_path / "hidden"), "ext4"), (str(tmp_path), OWN)]
    monkeypatch.setattr(writable_mounts, "_points", lambda proc: iter(points))
    mounts, mark = WritableMounts(), mark_of(tmp_path.stat())
    mounts.hold(-1, {})
    assert mounts.marks == [ANYWHERE, mark] and mounts.own == {mark}
    (held,) = mounts.held
    assert held.point == str(tmp_path) and held.mark == mark
    os.close(held.descriptor)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_messages_of_another_user_are_ignored(protected: list[bytes]) -> None:
    with wardens(1) as (one,):
        address = b"\0" + one.own_name[1:]
        for uid, found in ((54321, []), (0, [b"/x"])):
            child = os.fork()
            if child == 0:
                os.setuid(uid)
                sender = fresh_socket()
                take_name(sender, b"other")
                sender.sendto(PROTECT + bytes(REQUEST_ID_BYTES) + b"/x", address)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            one.answer()
            assert protected == found
