"""The lock that keeps wardens from renaming at the same time."""

import errno
import os
from pathlib import Path

import pytest

from pinfold.sandbox.linux.protocol import rename_lock
from pinfold.sandbox.linux.protocol.rename_lock import RenameLock
from pinfold.sandbox.linux.warden import git, late_mounts, peer_wardens


def test_one_warden_at_a_time_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If several could hold it together, a few that make names without a pause would keep it for good."""
    monkeypatch.setattr(rename_lock, "PATIENCE", 0.0)
    one, other = (RenameLock(os.open(tmp_path, os.O_RDONLY), frozenset()) for _ in range(2))
    one.acquire()
    with pytest.raises(OSError) as refused:
        other.acquire()
    assert refused.value.errno == errno.EBUSY
    assert "a program that has locked /run" in str(refused.value)
    one.release()
    other.acquire()
    os.close(one.descriptor)
    os.close(other.descriptor)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("took", "away"), [(0.001, 0.0), (0.1, 0.3), (0.9, 1.0)])
def test_a_warden_that_held_the_lock_for_long_leaves_it_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: float, away: float
) -> None:
    """Otherwise a warden that searches a large directory again and again would hold the lock nearly all the
    time."""
    clock = Clock()
    monkeypatch.setattr(rename_lock, "time", clock)
    one = RenameLock(os.open(tmp_path, os.O_RDONLY), frozenset())
    one.acquire()
    clock.sleep(took)
    one.release()
    released = clock.now
    one.acquire()
    assert clock.now - released == pytest.approx(away)
    os.close(one.descriptor)


def test_the_lock_is_awaited_longer_than_other_pens_are() -> None:
    """Its holder may be making a repository, and wait for the answers of the user's other pens."""
    assert rename_lock.PATIENCE > git.TRIES * late_mounts.PATIENCE + peer_wardens.PATIENCE
