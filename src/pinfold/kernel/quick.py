"""The few calls that a warden makes for every call it answers, as cheaply as ctypes allows.

They fail with -errno instead of an exception, take what was prepared once (prototypes, buffers), and hold the
GIL, since none of them waits. One thread at a time: the buffers are shared.

Facts (process_vm_readv(2), openat2(2), sched_setaffinity(2)):
- process_vm_readv of a range that runs into an unmapped page reads what lies before it.
- A call by ctypes with its argtypes set costs 0.4 us; one whose arguments are wrapped each time costs 3. To
  keep errno costs another 0.4.
- sched_getaffinity tells a mask as long as the kernel's own, and is EINVAL if given less room. It tells the
  processors that are there; a mask that is set may have others in it, which count once they are.
- sched_setaffinity of another thread asks for its user, or for CAP_SYS_NICE. 1 us each, as is the reading.
"""

import ctypes
import errno
import os
import struct

from pinfold.kernel.calls import number
from pinfold.kernel.process import PAGE, PIDFD_THREAD, read_string

LONGEST = PAGE
"""PATH_MAX: a path with its NUL."""

_libc = ctypes.PyDLL(None, use_errno=True)
_terse = ctypes.PyDLL(None)
"""For calls that are not asked why they fail."""


class _OpenHow(ctypes.Structure):
    """struct open_how"""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_SHORT = 256
_text = ctypes.create_string_buffer(LONGEST + 1)
_short = ctypes.create_string_buffer(_SHORT + 1)
_vectors = ctypes.create_string_buffer(4 * ctypes.sizeof(ctypes.c_size_t))
_how = _OpenHow(0, 0, 0)
_SHORT_AT, _HERE, _HOW = ctypes.addressof(_short), ctypes.addressof(_vectors), ctypes.addressof(_how)
_THERE = _HERE + ctypes.sizeof(_vectors) // 2
_put_vectors = struct.Struct("@PNPN").pack_into
"""Two of struct iovec: where to, and where from."""
_HOW_SIZE = ctypes.sizeof(_how)

_readv, _readv_terse = _libc.process_vm_readv, _terse.process_vm_readv
for _one in (_readv, _readv_terse):
    _one.argtypes = (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_ulong,
    )
    _one.restype = ctypes.c_ssize_t
_openat = _libc.openat
_openat.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint)
_readlinkat = _libc.readlinkat
_readlinkat.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_readlinkat.restype = ctypes.c_ssize_t
# A library object hands out a new function each time it is subscripted: each has a prototype of its own.
_openat2 = _libc["syscall"]
_openat2.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_openat2.restype = ctypes.c_long
_OPENAT2 = number("openat2")
_of_three = _libc["syscall"]
_of_three.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long)
_of_three.restype = ctypes.c_long
NO_HANDLE = (-errno.EINVAL, -errno.ENOENT)
"""Kernels differ in how they say it."""
_PIDFD_OPEN, _PIDFD_GETFD = number("pidfd_open"), number("pidfd_getfd")
MOST_PROCESSORS = 1024
_mask = ctypes.create_string_buffer(MOST_PROCESSORS // 8)
_MASK_SIZE = ctypes.sizeof(_mask)
_affinity = _terse["syscall"]
_affinity.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_size_t, ctypes.c_char_p)
_affinity.restype = ctypes.c_long
_GET_AFFINITY, _SET_AFFINITY = number("sched_getaffinity"), number("sched_setaffinity")
_getcpu = _terse.sched_getcpu
_getcpu.argtypes = ()


def read_text(pid: int, address: int) -> bytes | None:
    """The NUL-terminated string at an address of another process; None if there is none to be had."""
    # Within its page, which is there or not, and no more than most paths need: a page takes twice as long.
    size = PAGE - address % PAGE
    if size > _SHORT:
        size = _SHORT
    _put_vectors(_vectors, 0, _SHORT_AT, size, address, size)
    count: int = _readv_terse(pid, _HERE, 1, _THERE, 1, 0)
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
    _how.flags = flags | os.O_CLOEXEC
    _how.resolve = resolve
    descriptor: int = _openat2(_OPENAT2, directory, path, _HOW, _HOW_SIZE)
    return descriptor if descriptor >= 0 else -ctypes.get_errno()


def read_bytes(pid: int, address: int, size: int) -> bytes | int:
    """Some bytes of another process, at most 256, all of them; -errno if they cannot be had."""
    _put_vectors(_vectors, 0, _SHORT_AT, size, address, size)
    count: int = _readv(pid, _HERE, 1, _THERE, 1, 0)
    if count == size:
        return _short.raw[:size]
    return -ctypes.get_errno() if count < 0 else -errno.EFAULT


def copy_descriptor(thread: int, number: int) -> int:
    """A copy of a descriptor of another thread's: the same open file, close-on-exec; -errno.

    One of NO_HANDLE: this kernel has no handles on threads (6.9), and this one is not its process's first.
    """
    handle = _of_three(_PIDFD_OPEN, thread, PIDFD_THREAD, 0)
    if handle < 0 and ctypes.get_errno() == errno.EINVAL:
        handle = _of_three(_PIDFD_OPEN, thread, 0, 0)
    if handle < 0:
        return -ctypes.get_errno()
    copied: int = _of_three(_PIDFD_GETFD, handle, number, 0)
    answer = copied if copied >= 0 else -ctypes.get_errno()
    os.close(handle)
    return answer


def processor() -> int:
    """The number of the one that we run on, a moment ago."""
    here: int = _getcpu()
    return here


def read_affinity(thread: int) -> bytes:
    """On which processors a thread may run, one bit each; empty if it cannot be told. 0 is ourselves."""
    size: int = _affinity(_GET_AFFINITY, thread, _MASK_SIZE, _mask)
    return _mask.raw[:size] if size > 0 else b""


def set_affinity(thread: int, mask: bytes) -> bool:
    """Lets a thread run on these processors alone; False if it may not be told to, or is gone."""
    return _affinity(_SET_AFFINITY, thread, len(mask), mask) == 0  # type: ignore[no-any-return]
