"""A configuration that cannot be put under its protection is refused, and the reason is told."""

import errno
import os
from pathlib import Path
from typing import Any, cast

import pytest

from pinfold.model.protected_names import Match, NameRule
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.sandbox.linux.warden.git import Git
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.paths import Place, Spot
from pinfold.sandbox.linux.warden.peers import Neighbours
from pinfold.sandbox.linux.warden.rules import Judge, Wish


class Waiting:
    def is_waiting(self) -> bool:
        return True


class Noting:
    """A judge, of whom only what he writes down is wanted."""

    asking = None

    def __init__(self) -> None:
        self.noted: list[tuple[Any, ...]] = []

    def record(self, _caller: Caller, *words: object) -> None:
        self.noted.append(words)


def test_no_queue_is_left_for_a_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(late_mounts, "create", none_left)
    (tmp_path / "config.lock").write_text("[user]\n\tname = A\n")
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    place = Place(str(tmp_path), True, False, None, {}, True)
    spot, lock = (Spot(directory, place, name, name.decode()) for name in (b"config", b"config.lock"))
    judging = Noting()
    match = Match(NameRule(".git/config", "git runs what it names"))
    neighbours = Neighbours()
    before = sorted(os.listdir("/proc/self/fd"))
    git = Git(-1, -1, cast("Judge", judging), neighbours)
    with pytest.raises(OSError, match="Too many"):
        git(cast("Caller", Waiting()), Wish("rename", spot, match, lock))
    assert sorted(os.listdir("/proc/self/fd")) == before, "what was opened is closed"
    assert os.listdir(tmp_path) == ["config.lock"], "git's to take away"
    ((operation, path, rule),) = judging.noted
    assert (operation, path, rule.name) == ("rename", f"{tmp_path}/config", ".git/config")
    assert "Too many open files" in rule.why and not rule.grantable
    for descriptor in (directory, neighbours.names):
        os.close(descriptor)
    neighbours.socket.close()
