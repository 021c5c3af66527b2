"""Files made for callers that cannot take them, and files that appear meanwhile."""

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
"""The result of giving the file to the caller: an errno, or 0 if the caller has it."""
NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY


class Unlucky(Caller):
    """This process as the caller of an open; `giving` decides whether it gets the file."""

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


def test_a_protected_file_that_appears_meanwhile_is_not_opened(
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
def test_a_file_that_its_caller_cannot_take_is_removed(name: str, tmp_path: Path) -> None:
    """In a directory that is known to be unprotected, which takes one step, and in one that is seen for the
    first time."""

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
