"""What a warden reads of its callers."""

import ctypes
import errno
import mmap
import os
import threading
from pathlib import Path

import pytest

from pinfold.kernel import quick
from tests.kernel.child import in_child


def test_bytes_are_had_whole_or_not_at_all() -> None:
    area = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    area[:] = b"x" * len(area)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(base + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0  # PROT_NONE
    end = base + mmap.PAGESIZE
    assert quick.read_bytes(os.getpid(), base, 256) == b"x" * 256
    assert quick.read_bytes(os.getpid(), end - 16, 16) == b"x" * 16
    assert quick.read_bytes(os.getpid(), end - 16, 17) == -errno.EFAULT
    assert quick.read_bytes(os.getpid(), 0, 16) == -errno.EFAULT
    assert quick.read_bytes(2**22 + 1, base, 16) == -errno.ESRCH


def of_a_thread(number: int) -> list[int]:
    """A descriptor copied from the first thread and from another."""
    found: list[int] = []
    done, other = threading.Event(), threading.Thread(target=lambda: done.wait(10))
    other.start()
    for thread in (os.getpid(), other.native_id):
        assert thread
        found.append(quick.copy_descriptor(thread, number))
    done.set()
    other.join()
    return found


def test_a_descriptor_of_any_thread(tmp_path: Path) -> None:
    def action() -> list[bool]:
        opened = os.open(tmp_path, os.O_RDONLY)
        copies = of_a_thread(opened)
        assert of_a_thread(999) == [-errno.EBADF] * 2
        assert quick.copy_descriptor(2**22 + 1, 0) == -errno.ESRCH
        return [os.path.samestat(os.fstat(copy), os.fstat(opened)) for copy in copies]

    assert in_child(action) == [True, True]


def test_a_kernel_without_handles_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "PIDFD_THREAD", 1 << 20)  # a flag that is refused, as that one was

    def action() -> tuple[bool, bool]:
        first, other = of_a_thread(os.open(tmp_path, os.O_RDONLY))
        return first >= 0, other in quick.NO_HANDLE

    assert in_child(action) == (True, True)
