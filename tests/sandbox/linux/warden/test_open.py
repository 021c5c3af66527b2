"""Files that were made for callers who cannot take them, and those that come to be there meanwhile."""

import ctypes
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kernel.child import in_child

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD
from pinfold.model.protected_names import NameMatcher, NameRule
from pinfold.sandbox.linux.protocol.rename_lock import RenameLock
from pinfold.sandbox.linux.warden.affinity import CallerAffinity
from pinfold.sandbox.linux.warden.create import CreateCalls
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.open import OpenCalls
from pinfold.sandbox.linux.warden.paths import PlanPaths
from pinfold.sandbox.linux.warden.violations import ViolationLog

Giving = int | Callable[[], int]
"""What comes of giving it to the caller: an errno, 0 if it has it."""
NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY


class Unlucky(Caller):
    """Ourselves, asking for a file; what becomes of it is told by `giving`."""

    def __init__(self, proc: int, path: bytes, giving: Giving, flags: int = NEW) -> None:
        self.path = ctypes.create_string_buffer(path)
        at = ctypes.addressof(self.path)
        notification = (0, os.getpid(), 0, 0, 0, AT_FDCWD, at, flags, 0o644, 0, 0)
        super().__init__(-1, proc, CallerAffinity(), notification)  # type: ignore[arg-type]
        self.giving = giving
        self.answers: list[object] = []

    def give(self, descriptor: int, close_on_exec: bool, *, truncates: bool = False) -> int:
        error = self.giving() if callable(self.giving) else self.giving
        if not error:
            os.close(descriptor)
        return error

    def refuse(self, error: int) -> None:
        self.answers.append(error)

    def resume(self) -> None:
        self.answers.append("resumed")


def calls_in(root: str, proc: int, *rules: NameRule) -> OpenCalls:
    plan = PlanPaths((root,), (root,), (), ())
    lock = RenameLock(os.open(root, os.O_RDONLY), frozenset())
    matcher = NameMatcher(rules, plan.roots)
    create = CreateCalls(proc, ViolationLog(socket.socketpair()[0]), plan, matcher, lock)
    return OpenCalls(create, plan, rules)


def test_what_a_rule_is_about_is_not_opened_though_it_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = fast_calls.readlinkat

    def appearing(directory: int, name: bytes) -> bytes | int:
        found = look(directory, name)
        if name in (b".mcp.json", b"plain"):
            (tmp_path / os.fsdecode(name)).write_text("the host's")
        return found

    def action() -> None:
        proc, root = os.open("/proc", os.O_PATH), os.path.realpath(tmp_path)
        calls = calls_in(root, proc, NameRule(".mcp.json", "a test says so"))
        monkeypatch.setattr(fast_calls, "readlinkat", appearing)
        for name, answers in ((".mcp.json", [errno.EROFS]), ("plain", [])):
            calls.paths.unprotected.clear()
            caller = Unlucky(proc, os.fsencode(f"{root}/{name}"), 0, os.O_CREAT | os.O_WRONLY)
            calls.handlers["openat"](caller)
            calls.paths.release()
            assert caller.answers == answers, name

    in_child(action)


@pytest.mark.parametrize("name", ["known", "first"])
def test_what_nobody_takes_is_taken_back(name: str, tmp_path: Path) -> None:
    """In a place that is known to be plain, which takes one step, and in one that is seen first."""

    def action() -> None:
        proc, root = os.open("/proc", os.O_PATH), os.path.realpath(tmp_path)
        calls = calls_in(root, proc)
        create = calls.create
        os.mkdir(f"{root}/{name}")

        def ask(file: str, giving: Giving) -> list[object]:
            if name == "first":
                create.paths.parents.clear()
                create.paths.unprotected.clear()
            caller = Unlucky(proc, os.fsencode(f"{root}/{name}/{file}"), giving)
            calls.handlers["openat"](caller)
            create.paths.release()
            return caller.answers

        def replaced() -> int:
            os.rename(f"{root}/{name}/moved", f"{root}/{name}/elsewhere")
            Path(f"{root}/{name}/moved").write_text("another's")
            return errno.ESRCH

        before = len(os.listdir("/proc/self/fd"))
        assert ask("taken", 0) == []
        assert ask("no-room", errno.EMFILE) == [errno.EMFILE]
        assert ask("killed", errno.ESRCH) == [errno.ESRCH]
        assert ask("moved", replaced) == [errno.ESRCH]
        assert sorted(os.listdir(f"{root}/{name}")) == ["elsewhere", "moved", "taken"]
        assert Path(f"{root}/{name}/moved").read_text() == "another's"
        assert len(os.listdir("/proc/self/fd")) <= before + 1  # a umask

    in_child(action)
