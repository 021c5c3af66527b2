"""A git configuration that cannot be protected is denied, and the reason is recorded."""

import errno
import os
from pathlib import Path
from typing import Any, cast

import pytest

from pinfold.model.protected_names import Match, NameRule
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.sandbox.linux.warden.git import GitExemption
from pinfold.sandbox.linux.warden.name_check import NameCheck, ProtectedChange
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.paths import ParentDirectory, PathTarget
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens


class WaitingCaller:
    def is_waiting(self) -> bool:
        return True


class Noting:
    """A `NameCheck` that only records."""

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
    place = ParentDirectory(str(tmp_path), True, False, None, {}, True)
    target, lock = (PathTarget(directory, place, name, name.decode()) for name in (b"config", b"config.lock"))
    checks = Noting()
    match = Match(NameRule(".git/config", "git runs what it names"))
    peers = PeerWardens()
    before = sorted(os.listdir("/proc/self/fd"))
    git = GitExemption(-1, -1, cast("NameCheck", checks), peers)
    with pytest.raises(OSError, match="Too many"):
        git(cast("Caller", WaitingCaller()), ProtectedChange("rename", target, match, lock))
    assert sorted(os.listdir("/proc/self/fd")) == before, "what was opened is closed"
    assert os.listdir(tmp_path) == ["config.lock"], "git's to take away"
    ((operation, path, rule),) = checks.noted
    assert (operation, path, rule.name) == ("rename", f"{tmp_path}/config", ".git/config")
    assert "Too many open files" in rule.why and not rule.grantable
    for descriptor in (directory, peers.names):
        os.close(descriptor)
    peers.socket.close()
