"""Which sockets count as bound in a pen, as two wardens of its session see it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.child import in_child

from pinfold.sandbox.linux.warden import bound_sockets
from pinfold.sandbox.linux.warden.bound_sockets import BoundSockets, identity_of

Wardens = tuple[BoundSockets, BoundSockets]


@pytest.fixture
def wardens(tmp_path: Path) -> Iterator[Wardens]:
    (tmp_path / "room").mkdir()
    room = os.open(tmp_path / "room", os.O_PATH)
    descriptors = os.open("/proc/self/fd", os.O_PATH)
    before = os.getcwd()
    pair = BoundSockets(room, descriptors), BoundSockets(room, descriptors)
    try:
        yield pair
    finally:
        os.chdir(before)
        for warden in pair:
            close(warden)
        os.close(room)
        os.close(descriptors)


def close(warden: BoundSockets) -> None:
    """As the warden's death would."""
    for held in warden.held.values():
        for descriptor in held:
            os.close(descriptor)
    warden.held.clear()


def bind(path: Path) -> tuple[socket.socket, int]:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    return server, os.open(path, os.O_PATH)


def test_a_bound_socket_belongs_to_one_warden_and_others_see_that(wardens: Wardens, tmp_path: Path) -> None:
    one, other = wardens
    server, inode = bind(tmp_path / "s")
    with server:
        identity = identity_of(inode)
        assert not one.has(identity) and not other.has(identity)
        one.add(inode)
        assert one.has(identity) and not other.has(identity)
        assert other.is_held_by_another(identity) and not one.is_held_by_another(identity)
        close(one)
        assert not one.has(identity) and not other.is_held_by_another(identity)


def test_what_a_dead_warden_left_can_be_held_again(wardens: Wardens, tmp_path: Path) -> None:
    one, other = wardens
    server, inode = bind(tmp_path / "s")
    with server:
        one.add(inode)
        close(one)
        other.add(os.open(tmp_path / "s", os.O_PATH))
        assert one.is_held_by_another(identity_of(other.held.popitem()[1][0]))


def test_a_held_inodes_number_is_not_reused(wardens: Wardens, tmp_path: Path) -> None:
    one, _ = wardens
    server, inode = bind(tmp_path / "s")
    one.add(inode)
    server.close()
    (tmp_path / "s").unlink()
    others = [bind(tmp_path / str(number)) for number in range(50)]
    assert not any(one.has(identity_of(inode)) for _, inode in others)
    for other, descriptor in others:
        other.close()
        os.close(descriptor)


def test_closed_sockets_are_released(
    wardens: Wardens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_sockets, "FEW", 4)
    one, other = wardens
    one.enough = 4
    kept, inode = bind(tmp_path / "kept")
    one.add(inode)
    identity = identity_of(inode)
    for number in range(40):
        server, inode = bind(tmp_path / str(number))
        one.add(inode)
        server.close()
        assert len(one.held) <= 5
    assert one.has(identity) and other.is_held_by_another(identity)
    assert len(os.listdir(tmp_path / "room")) == len(one.held)
    kept.close()


def test_a_killed_warden_releases_its_sockets(wardens: Wardens, tmp_path: Path) -> None:
    one, other = wardens
    server, inode = bind(tmp_path / "s")

    def action() -> bool:
        one.add(inode)
        return other.is_held_by_another(identity_of(inode))

    assert in_child(action)
    assert not other.is_held_by_another(identity_of(inode))
    server.close()
    os.close(inode)
