"""The few calls that a warden makes for every call it answers, as cheaply as ctypes allows.

They return a negative number instead of raising (some the errno), and take buffers that were
prepared once. One thread at a time: the buffers are shared. What a program can keep waiting, by locks of its
memory or of a directory, gives up the GIL, so that other threads of the warden go on.

Facts (process_vm_readv(2), openat2(2), sched_setaffinity(2); ctypes of Python 3.11, measured):
- process_vm_readv of a range that runs into an unmapped page reads what lies before it.
- To give up the GIL costs 0.1 us if no other thread wants it.
- A call without argtypes costs 0.3 us, with four of them 0.7, and one whose arguments are wrapped each time
  3. Without, a number is passed as an int, bytes and arrays as a pointer: no address can be a number.
- sched_getaffinity tells a mask as long as the kernel's own, always the same, and is EINVAL if given less
  room. It tells the processors that are there; a mask that is set may have others in it, which count once
  they are.
- sched_setaffinity of another thread asks for its user, or for CAP_SYS_NICE.
"""

import ctypes
import errno
import os
import struct

from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
from pinfold.kernel.process import PAGE, PIDFD_THREAD, read_string
from pinfold.kernel.syscall import number

LONGEST = PAGE
"""PATH_MAX: a path with its NUL."""
NO_HANDLE = (-errno.EINVAL, -errno.ENOENT)
"""Kernels differ in how they say it."""
MOST_PROCESSORS = 1024

_libc = ctypes.CDLL(None, use_errno=True)
_terse = ctypes.CDLL(None)
"""For calls that are not asked why they fail."""
_brief = ctypes.PyDLL(None)
"""For calls that never wait, and are not asked either."""
_OPENAT2, _PIDFD_OPEN, _PIDFD_GETFD = number("openat2"), number("pidfd_open"), number("pidfd_getfd")
_GET_AFFINITY, _SET_AFFINITY = number("sched_getaffinity"), number("sched_setaffinity")

_SHORT = 256
_text = ctypes.create_string_buffer(LONGEST + 1)
_short = ctypes.create_string_buffer(_SHORT + 1)
_SHORT_AT = ctypes.addressof(_short)
_VECTOR = struct.Struct("@PN")
"""struct iovec"""
_here, _there = (ctypes.create_string_buffer(_VECTOR.size) for _ in range(2))
_put_vector = _VECTOR.pack_into
_HOW = struct.Struct("=QQQ")
"""struct open_how: flags, mode, how to resolve"""
_how = ctypes.create_string_buffer(_HOW.size)
_HOW_SIZE = _HOW.size
_put_how = _HOW.pack_into
_NEW = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
NO_LINKS = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS

_call, _call_terse = _libc.syscall, _terse.syscall
_readv, _readv_terse = _libc.process_vm_readv, _terse.process_vm_readv
_openat, _readlinkat = _libc.openat, _libc.readlinkat
_call_brief, _getcpu = _brief.syscall, _brief.sched_getcpu

_most = bytes(MOST_PROCESSORS // 8)
_MASK_SIZE = max(1, _call_brief(_GET_AFFINITY, 0, len(_most), ctypes.create_string_buffer(_most)))
_mask = ctypes.create_string_buffer(_MASK_SIZE)


def read_text(pid: int, address: int) -> bytes | None:
    """The NUL-terminated string at an address of another process; None if there is none to be had."""
    # Within its page, which is there or not, and no more than most paths need: a page takes twice as long.
    size = PAGE - address % PAGE
    if size > _SHORT:
        size = _SHORT
    _put_vector(_here, 0, _SHORT_AT, size)
    _put_vector(_there, 0, address, size)
    count: int = _readv_terse(pid, _here, 1, _there, 1, 0)
    text: bytes = _short.value
    # What lies behind the bytes that came is an earlier call's.
    if len(text) < count:
        return text
    if count != size:
        return None
    try:
        return read_string(pid, address, LONGEST)
    except OSError:
        return None


def openat(directory: int, path: bytes, flags: int, mode: int = 0) -> int:
    """openat(2), close-on-exec; -errno if it fails."""
    descriptor: int = _openat(directory, path, flags | os.O_CLOEXEC, mode)
    return descriptor if descriptor >= 0 else -ctypes.get_errno()


def readlinkat(directory: int, path: bytes) -> bytes | int:
    """Where a link leads; -errno if it fails, which for something that is no link is -EINVAL."""
    size = _readlinkat(directory, path, _text, LONGEST)
    return ctypes.string_at(_text, size) if size >= 0 else -ctypes.get_errno()


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """openat2(2) of something that exists, close-on-exec; -errno if it fails."""
    _put_how(_how, 0, flags | os.O_CLOEXEC, 0, resolve)
    descriptor: int = _call(_OPENAT2, directory, path, _how, _HOW_SIZE)
    return descriptor if descriptor >= 0 else -ctypes.get_errno()


def make_file(path: bytes, flags: int, mode: int) -> int:
    """A new file at an absolute path with no links in it, close-on-exec; negative if it cannot be made."""
    _put_how(_how, 0, flags | _NEW, mode, NO_LINKS)
    descriptor: int = _call_terse(_OPENAT2, AT_FDCWD, path, _how, _HOW_SIZE)
    return descriptor


def read_bytes(pid: int, address: int, size: int) -> bytes | int:
    """Some bytes of another process, at most 256, all of them; -errno if they cannot be had."""
    _put_vector(_here, 0, _SHORT_AT, size)
    _put_vector(_there, 0, address, size)
    count: int = _readv(pid, _here, 1, _there, 1, 0)
    if count == size:
        return _short.raw[:size]
    return -ctypes.get_errno() if count < 0 else -errno.EFAULT


def copy_descriptor(thread: int, number: int) -> int:
    """A copy of a descriptor of another thread's: the same open file, close-on-exec; -errno.

    One of NO_HANDLE: this kernel has no handles on threads (6.9), and this one is not its process's first.
    """
    handle = _call(_PIDFD_OPEN, thread, PIDFD_THREAD)
    if handle < 0 and ctypes.get_errno() == errno.EINVAL:
        handle = _call(_PIDFD_OPEN, thread, 0)
    if handle < 0:
        return -ctypes.get_errno()
    copied: int = _call(_PIDFD_GETFD, handle, number, 0)
    answer = copied if copied >= 0 else -ctypes.get_errno()
    os.close(handle)
    return answer


def processor() -> int:
    """The number of the one that we run on, a moment ago."""
    here: int = _getcpu()
    return here


def read_affinity(thread: int) -> bytes:
    """On which processors a thread may run, one bit each; empty if it cannot be told. 0 is ourselves."""
    told: bool = _call_brief(_GET_AFFINITY, thread, _MASK_SIZE, _mask) > 0
    return _mask.raw if told else b""


def set_affinity(thread: int, mask: bytes) -> bool:
    """Lets a thread run on these processors alone; False if it may not be told to, or is gone."""
    return _call_brief(_SET_AFFINITY, thread, len(mask), mask) == 0  # type: ignore[no-any-return]
