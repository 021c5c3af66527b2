"""The few calls that a warden makes for every call it answers, as cheaply as ctypes allows.

They fail with -errno instead of an exception, take what was prepared once (prototypes, buffers), and hold the
GIL, since none of them waits. One thread at a time: the buffers are shared.

Facts (process_vm_readv(2), openat2(2)):
- process_vm_readv of a range that runs into an unmapped page reads what lies before it.
- A call by ctypes with its argtypes set costs 0.4 us; one whose arguments are wrapped each time costs 3.
"""

import ctypes
import os

from pinfold.kernel.calls import number

PAGE = 4096
LONGEST = PAGE
"""PATH_MAX: a path with its NUL."""

_libc = ctypes.PyDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _OpenHow(ctypes.Structure):
    """struct open_how"""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_text = ctypes.create_string_buffer(LONGEST)
_here = _Vector(ctypes.addressof(_text), LONGEST)
_there = _Vector(0, 0)
_how = _OpenHow(0, 0, 0)
_HERE, _THERE, _HOW = ctypes.addressof(_here), ctypes.addressof(_there), ctypes.addressof(_how)
_HOW_SIZE = ctypes.sizeof(_how)

_readv = _libc.process_vm_readv
_readv.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_ulong,
)
_readv.restype = ctypes.c_ssize_t
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


def read_text(pid: int, address: int) -> bytes | None:
    """The NUL-terminated string at an address of another process; None if there is none to be had."""
    size = PAGE - address % PAGE
    _there.base = address
    _here.length = _there.length = size
    count = _readv(pid, _HERE, 1, _THERE, 1, 0)
    if count <= 0:
        return None
    text = _text.value if count == LONGEST else ctypes.string_at(_text, count).partition(b"\0")[0]
    if len(text) < count:
        return text
    return _read_on(pid, address + size, text) if size < LONGEST else None


def _read_on(pid: int, address: int, head: bytes) -> bytes | None:
    """A string that goes on into the next page."""
    _there.base = address
    _here.length = _there.length = LONGEST - len(head)
    count = _readv(pid, _HERE, 1, _THERE, 1, 0)
    tail, nul, _ = ctypes.string_at(_text, max(count, 0)).partition(b"\0")
    return head + tail if nul else None


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
