"""What a process is told about itself, and handles on others."""

import ctypes
import errno
import mmap
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinfold.kernel import fast_calls, files, process
from pinfold.kernel.syscall import prctl
from tests.kernel.child import USERS, errno_of, in_child
from tests.patience import PATIENCE

PR_GET_DUMPABLE = 3


@contextmanager
def sleeper() -> Iterator[int]:
    """A child that waits to be killed."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def is_dumpable() -> bool:
    return prctl("PR_GET_DUMPABLE", PR_GET_DUMPABLE) == 1


@USERS
def test_what_a_process_says_of_itself(uid: int) -> None:
    def action() -> tuple[bool, ...]:
        process.set_dumpable(True)  # an earlier test of this process may have changed it
        before = process.has_no_new_privs(), is_dumpable()
        process.set_no_new_privs()
        process.set_dumpable(False)
        process.set_name("a name that is too long")
        named = Path("/proc/self/comm").read_text() == "a name that is \n"
        return *before, process.has_no_new_privs(), is_dumpable(), named

    assert in_child(action, uid) == (False, True, True, False, True)


def test_a_descriptor_of_another_process() -> None:
    def action() -> bytes:
        reader, writer = os.pipe()
        with sleeper() as pid:
            os.close(writer)
            copy = fast_calls.copy_descriptor(pid, writer)
            os.write(copy, b"through it")
            assert not os.get_inheritable(copy)
            return os.read(reader, 100)

    assert in_child(action) == b"through it"


def test_closing_all_but_some() -> None:
    def action() -> list[bool]:
        read_end, write_end = os.pipe()
        kept, _ = os.pipe()
        # The child's own way back to the test has to stay.
        back = {int(name) for name in os.listdir("/proc/self/fd")} - {read_end, write_end}
        process.close_all_but(back)
        return [os.path.exists(f"/proc/self/fd/{each}") for each in (read_end, write_end, kept)]

    assert in_child(action) == [False, False, True]


@pytest.mark.parametrize("length", [0, 1, 100, 4095])
@pytest.mark.parametrize("offset", [0, 1, 4095])
def test_reading_a_string(length: int, offset: int) -> None:
    area = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    area[offset : offset + length + 1] = b"x" * length + b"\0"
    assert process.read_string(os.getpid(), base + offset) == b"x" * length


def test_a_string_without_end_is_none() -> None:
    area = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    area[:] = b"x" * len(area)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert process.read_string(os.getpid(), base + 5, 4096) is None


def test_reading_nowhere() -> None:
    with pytest.raises(OSError, match="process_vm_readv: Bad address"):
        process.read_string(os.getpid(), 0)


def test_the_parents_death_is_heard() -> None:
    def action() -> bytes:
        reader, writer = os.pipe()
        set_up, tell = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                process.set_parent_death_signal(signal.SIGUSR1)
                signal.signal(signal.SIGUSR1, lambda *_: (os.write(writer, b"heard"), os._exit(0)))
                os.write(tell, b"x")
                signal.pause()
            os.read(set_up, 1)
            os._exit(0)
        return os.read(reader, 100) if select.select([reader], [], [], PATIENCE)[0] else b"not heard"

    assert in_child(action) == b"heard"


BOUNDS = [
    # resolve, path, errno
    (files.RESOLVE_BENEATH, "inner/file", 0),
    (files.RESOLVE_BENEATH, "../outside", errno.EXDEV),
    (files.RESOLVE_BENEATH, "/etc/passwd", errno.EXDEV),
    (files.RESOLVE_BENEATH, "up", errno.EXDEV),
    (files.RESOLVE_NO_SYMLINKS, "up", errno.ELOOP),
    (0, "up", 0),
    (0, "none", errno.ENOENT),
]


@pytest.mark.parametrize(("resolve", "path", "expected"), BOUNDS)
def test_openat2_stays_within_bounds(tmp_path: Path, resolve: int, path: str, expected: int) -> None:
    (tmp_path / "top/inner").mkdir(parents=True)
    (tmp_path / "top/inner/file").touch()
    (tmp_path / "outside").touch()
    (tmp_path / "top/up").symlink_to("../outside")
    top = os.open(tmp_path / "top", os.O_PATH)

    def action() -> None:
        os.close(files.openat2(top, path, os.O_RDONLY, resolve=resolve))

    try:
        assert errno_of(action) == expected
    finally:
        os.close(top)


def test_reopening_is_by_inode(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("first")
    held = os.open(tmp_path / "a", os.O_PATH)
    (tmp_path / "b").write_text("second")
    files.renameat2(files.AT_FDCWD, tmp_path / "a", files.AT_FDCWD, tmp_path / "b", files.RENAME_EXCHANGE)
    again = files.reopen(held, os.O_RDONLY)
    assert os.read(again, 100) == b"first"
    os.close(again)
    os.close(held)


@USERS
def test_access_by_effective_ids(uid: int) -> None:
    def action() -> list[int]:
        root = os.open("/", os.O_PATH)
        return [files.access_error(root, "etc/passwd", mode) for mode in (os.R_OK, os.W_OK)]

    assert in_child(action, uid) == [0, errno.EACCES if uid else 0]


def test_the_page_of_the_reader_is_no_larger_than_the_machines() -> None:
    assert mmap.PAGESIZE % process.PAGE == 0
    assert sys.byteorder == "little"
