"""What a warden reads of its callers."""

import ctypes
import errno
import mmap
import os
import threading
from pathlib import Path

import pytest

from pinfold.kernel import fast_calls
from pinfold.kernel.files import RESOLVE_NO_MAGICLINKS
from tests.kernel.child import in_child

PAGE = mmap.PAGESIZE


def test_bytes_are_had_whole_or_not_at_all() -> None:
    area = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    area[:] = b"x" * len(area)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(base + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0  # PROT_NONE
    end = base + mmap.PAGESIZE
    assert fast_calls.read_bytes(os.getpid(), base, 256) == b"x" * 256
    assert fast_calls.read_bytes(os.getpid(), end - 16, 16) == b"x" * 16
    assert fast_calls.read_bytes(os.getpid(), end - 16, 17) == -errno.EFAULT
    assert fast_calls.read_bytes(os.getpid(), 0, 16) == -errno.EFAULT
    assert fast_calls.read_bytes(2**22 + 1, base, 16) == -errno.ESRCH


def of_a_thread(number: int) -> list[int]:
    """A descriptor copied from the first thread and from another."""
    found: list[int] = []
    done, other = threading.Event(), threading.Thread(target=lambda: done.wait(10))
    other.start()
    for thread in (os.getpid(), other.native_id):
        assert thread
        found.append(fast_calls.copy_descriptor(thread, number))
    done.set()
    other.join()
    return found


def test_a_descriptor_of_any_thread(tmp_path: Path) -> None:
    def action() -> list[bool]:
        opened = os.open(tmp_path, os.O_RDONLY)
        copies = of_a_thread(opened)
        assert of_a_thread(999) == [-errno.EBADF] * 2
        assert fast_calls.copy_descriptor(2**22 + 1, 0) == -errno.ESRCH
        return [os.path.samestat(os.fstat(copy), os.fstat(opened)) for copy in copies]

    assert in_child(action) == [True, True]


def test_a_kernel_without_handles_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_calls, "PIDFD_THREAD", 1 << 20)  # a flag that is refused, as that one was

    def action() -> tuple[bool, bool]:
        first, other = of_a_thread(os.open(tmp_path, os.O_RDONLY))
        return first >= 0, other in fast_calls.NO_HANDLE

    assert in_child(action) == (True, True)


def placed(pages: mmap.mmap, offset: int, text: bytes) -> int:
    pages[offset : offset + len(text)] = text
    return ctypes.addressof(ctypes.c_char.from_buffer(pages)) + offset


@pytest.mark.parametrize("offset", [0, 1, PAGE - 300, PAGE - 256, PAGE - 3, PAGE - 1])
@pytest.mark.parametrize("length", [0, 1, 2, 254, 255, 256, 257, 1000, 4000, 4095])
def test_strings_are_read_whole_wherever_they_lie(offset: int, length: int) -> None:
    pages = mmap.mmap(-1, 4 * PAGE)
    pages[:] = b"y" * len(pages)
    text = bytes(97 + number % 26 for number in range(length))
    assert fast_calls.read_text(os.getpid(), placed(pages, offset, text + b"\0")) == text


def test_what_is_no_path_is_none() -> None:
    pages = mmap.mmap(-1, 4 * PAGE)
    pages[:] = b"y" * len(pages)
    assert fast_calls.read_text(os.getpid(), placed(pages, 0, b"too long")) is None
    assert fast_calls.read_text(os.getpid(), 8) is None
    assert fast_calls.read_text(2**22 + 1, placed(pages, 0, b"nobody's\0")) is None


def test_what_an_earlier_call_left_is_not_read_again() -> None:
    pages = mmap.mmap(-1, PAGE)
    address = placed(pages, 0, b"a secret of another\0")
    assert fast_calls.read_text(os.getpid(), address) == b"a secret of another"
    assert fast_calls.read_text(os.getpid(), 8) is None
    # Three bytes without an end, then nothing mapped.
    held = mmap.mmap(-1, 2 * PAGE)
    start = placed(held, PAGE - 3, b"abc")
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + 3), ctypes.c_size_t(PAGE), 0) == 0
    assert fast_calls.read_text(os.getpid(), start) is None


def test_opens_and_links_answer_with_the_errno(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_PATH)
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "way").symlink_to("/proc/self/cwd")
    made = fast_calls.openat(directory, b"file", os.O_CREAT | os.O_WRONLY, 0o600)
    assert made >= 0 and not os.get_inheritable(made)
    os.close(made)
    assert fast_calls.openat(directory, b"no/where", os.O_RDONLY) == -errno.ENOENT
    assert fast_calls.readlinkat(directory, b"link") == b"nowhere"
    assert fast_calls.readlinkat(directory, b"file") == -errno.EINVAL
    assert fast_calls.readlinkat(directory, b"nothing") == -errno.ENOENT
    assert (
        fast_calls.openat2(directory, b"way", os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_MAGICLINKS)
        == -errno.ELOOP
    )
    found = fast_calls.openat2(directory, b".", os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_MAGICLINKS)
    assert os.fstat(found).st_ino == os.stat(tmp_path).st_ino and not os.get_inheritable(found)
    os.close(found)
    os.close(directory)


def test_where_threads_may_run() -> None:
    def action() -> list[object]:
        every = os.sched_getaffinity(0)
        mask = fast_calls.read_affinity(0)
        assert mask == fast_calls.read_affinity(os.getpid())
        told = {number for number in range(len(mask) * 8) if mask[number >> 3] >> (number & 7) & 1}
        one = (1 << min(every)).to_bytes(len(mask), "little")
        narrowed = fast_calls.set_affinity(0, one) and os.sched_getaffinity(0) == {min(every)}
        here = fast_calls.processor() == min(every)
        back = fast_calls.set_affinity(0, b"\xff" * 128) and os.sched_getaffinity(0) >= every
        return [told == every, narrowed, here, back]

    assert in_child(action) == [True] * 4
    assert fast_calls.read_affinity(2**22 + 1) == b""
    assert not fast_calls.set_affinity(2**22 + 1, b"\xff" * 128)
    assert not fast_calls.set_affinity(0, bytes(128))


def test_a_file_is_made_where_no_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nothing")
    new = os.fsencode(tmp_path / "real/new")
    made = fast_calls.make_file(new, os.O_RDWR, 0o640)
    assert made >= 0
    assert not os.get_inheritable(made)
    assert os.path.samestat(os.fstat(made), os.stat(new))
    os.close(made)
    for taken in ("real/new", "link/other", "dangling", "nowhere/x", "real"):
        assert fast_calls.make_file(os.fsencode(tmp_path / taken), os.O_WRONLY, 0o640) < 0
    assert sorted(os.listdir(tmp_path / "real")) == ["new"]
    assert not (tmp_path / "nothing").exists()
