"""The way into the kernel: libc, raw system calls by name, and one way to fail.

Facts about ctypes:
- A Python int in a variadic call is passed as a C int: `syscall` needs c_long, or high bits are lost.
- bytes are passed as a char pointer and end at the first NUL, so a path with one would name another file.
- CDLL gives up the GIL during the call, PyDLL does not. Only what may block needs the first.

What this means for us: `system_call` widens its ints, and `path_bytes` refuses NUL.
"""

import ctypes
import os

from pinfold.kernel.syscall_numbers import MACHINE, NUMBERS

Path = str | bytes | os.PathLike[str]

libc = ctypes.CDLL(None, use_errno=True)

_syscall = libc.syscall
_syscall.restype = ctypes.c_long
_numbers = NUMBERS.get(MACHINE, {})


Buffer = ctypes.Array[ctypes.c_char]


def buffer(data: bytes, size: int | None = None) -> Buffer:
    """Memory that a call reads or fills, at least one NUL longer than the data unless told its size."""
    return ctypes.create_string_buffer(data, size or len(data) + 1)


def address_of(memory: Buffer) -> int:
    """For a structure that points to it; the memory must be kept until the call is over."""
    return ctypes.addressof(memory)


def path_bytes(path: Path) -> bytes:
    """A path as the kernel takes it."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded


def failure(call: str, path: Path | None = None) -> OSError:
    """The error the last call left, with the call's name in front of the kernel's words."""
    code = ctypes.get_errno()
    message = f"{call}: {os.strerror(code)}"
    return OSError(code, message) if path is None else OSError(code, message, os.fsdecode(path))


def check(call: str, result: int, path: Path | None = None) -> int:
    """The result of a call, unless it is -1."""
    if result == -1:
        raise failure(call, path)
    return result


def number(call: str) -> int:
    """The call's number on this machine."""
    if call not in _numbers:
        raise OSError(38, f"{call}: no such system call on {MACHINE}")  # ENOSYS
    return _numbers[call]


def system_call(call: str, *arguments: object, path: Path | None = None) -> int:
    """Makes a system call by its name. `path` is for the error alone."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return check(call, _syscall(ctypes.c_long(number(call)), *wide), path)


def prctl(name: str, option: int, *arguments: object) -> int:
    """prctl(2), its unused arguments 0, as some options demand; `name` is for the error alone."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    wide = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in padded]
    return check(f"prctl({name})", libc.prctl(ctypes.c_int(option), *wide))
