"""Runs a piece of a test in a child process, so that whatever the kernel takes from it is gone with it."""

import os
import pickle
import select
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar

import pytest

from pinfold.kernel import process

T = TypeVar("T")
SECONDS = 60
NOBODY = 65534

USERS = pytest.mark.parametrize("uid", [os.getuid(), NOBODY], ids=["ourselves", "ordinary"])


class DiedError(Exception):
    """The child ended by a signal."""


class FailedError(AssertionError):
    """The child raised something other than OSError; its traceback."""


def become(uid: int) -> None:
    """An ordinary user from here on, whose own /proc files are its own."""
    if uid == os.getuid():
        return
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    process.set_dumpable(True)


def in_child(action: Callable[[], T], uid: int | None = None) -> T:
    """What `action` returned in a child; an OSError of its is raised here."""
    if uid is not None and uid != os.getuid() and os.getuid() != 0:
        pytest.skip("only root can become another user")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pytest-xdist has threads; the child uses none of theirs
        pid = os.fork()
    if pid == 0:
        _run(action, uid, writer)
    os.close(writer)
    data = b""
    while (in_time := select.select([reader], [], [], SECONDS)[0]) and (piece := os.read(reader, 65536)):
        data += piece
    os.close(reader)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not in_time:
        raise FailedError("the child took too long")
    if os.WIFSIGNALED(status):
        raise DiedError(signal.Signals(os.WTERMSIG(status)).name)
    kind, value = pickle.loads(data)
    if kind == "returned":
        return value  # type: ignore[no-any-return]
    raise OSError(*value) if kind == "refused" else FailedError(value)


def _run(action: Callable[[], object], uid: int | None, writer: int) -> None:
    try:
        try:
            if uid is not None:
                become(uid)
            answer: tuple[str, object] = ("returned", action())
        except OSError as error:
            answer = ("refused", (error.errno, error.strerror))
        except BaseException:  # noqa: BLE001  the child hands everything to its parent
            answer = ("failed", traceback.format_exc())
        os.write(writer, pickle.dumps(answer))
    finally:
        os._exit(0)


def errno_of(action: Callable[[], object]) -> int:
    """The errno an action fails with; 0 if it does not."""
    try:
        action()
    except OSError as error:
        return error.errno or -1
    return 0
