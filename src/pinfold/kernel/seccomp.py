"""seccomp: installing a filter, and answering the calls it hands to a listener.

Facts about seccomp (seccomp(2), seccomp_unotify(2), Documentation/userspace-api/seccomp_filter.rst):
- A filter stays for good and is inherited; several are all run, and the strictest answer counts. Installing
  asks for no_new_privs or CAP_SYS_ADMIN.
- Of all filters of a process one may have a listener: a second is EBUSY.
- RECV wants a zeroed buffer. ENOENT from RECV, SEND, ADDFD: the caller is gone, or was interrupted and
  will not see the answer.
- notif.pid is a **thread** id in the listener's pid namespace, 0 if it has none there. Data that was read
  from that process belongs to the call only if the id is still valid afterwards.
- Without WAIT_KILLABLE_RECV (5.19) any handled signal interrupts a call that waits, and it is then made a
  second time. With it, only a fatal one does once the call was received; before that, any still does.
- ADDFD (5.9) puts a descriptor into the caller, which waits on: its number there is what the ioctl returns.
  With SEND (5.14) it is the answer in the same step, but then the caller goes on before ours is closed.
- It is the caller itself that takes the descriptor: ADDFD wakes it, and waits to be woken when it is done.
- SYNC_WAKE_UP (6.6) runs the two sides on one processor in turn: measured 9.6 against 56 us. It holds for
  RECV and SEND, not for ADDFD.
- When the last descriptor of a listener is closed, calls that wait and later ones fail with ENOSYS.
- seccomp(SET_MODE_FILTER, flags, NULL) is EFAULT when the flags are known and EINVAL when not.
"""

import ctypes
import errno
import fcntl
import struct
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from pinfold.kernel.syscall import system_call

RET_KILL_PROCESS = 0x80000000
RET_ERRNO = 0x00050000
RET_USER_NOTIF = 0x7FC00000
RET_ALLOW = 0x7FFF0000

FILTER_FLAG_NEW_LISTENER = 1 << 3
FILTER_FLAG_WAIT_KILLABLE_RECV = 1 << 5

USER_NOTIF_FLAG_CONTINUE = 1

_SET_MODE_FILTER = 1
_NOTIFICATION = struct.Struct("=QI4xiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ADDFD = struct.Struct("=QIIII")
_CLOEXEC = 0o2000000
_ID = struct.Struct("=Q")
_INSTRUCTION = struct.Struct("=HBBI")


def _ioctl(direction: int, number: int, size: int) -> int:
    return direction << 30 | size << 16 | ord("!") << 8 | number


_WRITE, _WRITE_READ = 1, 3
_RECV = _ioctl(_WRITE_READ, 0, _NOTIFICATION.size)
_SEND = _ioctl(_WRITE_READ, 1, _RESPONSE.size)
_ID_VALID = _ioctl(_WRITE, 2, _ID.size)
_ADD = _ioctl(_WRITE, 3, _ADDFD.size)
_SET_FLAGS = _ioctl(_WRITE, 4, _ID.size)
_SYNC_WAKE_UP = 1
_NOTHING = bytes(_NOTIFICATION.size)


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class Notification(NamedTuple):
    """A call that waits for its answer."""

    id: int
    pid: int
    """The calling thread, as our pid namespace numbers it."""
    number: int
    architecture: int
    pointer: int
    """Where in the caller's code the call was made."""
    first: int
    second: int
    third: int
    fourth: int
    fifth: int
    sixth: int

    @property
    def arguments(self) -> tuple[int, ...]:
        return self[5:]


_unpacked = _NOTIFICATION.unpack
_notification = partial(tuple.__new__, Notification)
"""As Notification._make does it, at half its cost."""


def pack(program: Iterable[tuple[int, int, int, int]]) -> bytes:
    """A filter of (code, jt, jf, k) as the kernel takes it."""
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def install(packed: bytes, flags: int = 0) -> int:
    """Puts this thread under a filter; the listener's descriptor if one is asked for.

    Preconditions: no_new_privs or CAP_SYS_ADMIN.
    """
    filled = _Program(len(packed) // _INSTRUCTION.size, packed)
    return system_call("seccomp", _SET_MODE_FILTER, flags, ctypes.byref(filled))


def has_flags(flags: int) -> bool:
    """Whether this kernel would take a filter with these flags. Installs nothing."""
    try:
        system_call("seccomp", _SET_MODE_FILTER, flags, None)
    except OSError as error:
        return error.errno == errno.EFAULT
    return False


def set_sync_wake_up(listener: int) -> bool:
    """Asks for quicker turns between caller and listener; False if this kernel cannot."""
    try:
        fcntl.ioctl(listener, _SET_FLAGS, _SYNC_WAKE_UP)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTTY):
            return False
        raise
    return True


def receive(listener: int) -> Notification | None:
    """The next waiting call, waiting for one; None if the caller went away meanwhile.

    Poll the descriptor first: a blocked receive does not notice that every filtered process has ended.
    """
    try:
        return _notification(_unpacked(fcntl.ioctl(listener, _RECV, _NOTHING)))
    except (FileNotFoundError, InterruptedError):
        return None


def respond(listener: int, id_: int, *, value: int = 0, error: int = 0) -> bool:
    """Answers a call: with a value, or with an errno. False if its caller does not wait any more."""
    return _answered(listener, _SEND, _RESPONSE.pack(id_, 0 if error else value, -error, 0))


def resume(listener: int, id_: int) -> bool:
    """Lets the kernel run the call as if there were no listener. Never for what only the listener forbids."""
    return _answered(listener, _SEND, _RESPONSE.pack(id_, 0, 0, USER_NOTIF_FLAG_CONTINUE))


def is_valid(listener: int, id_: int) -> bool:
    """Whether the caller still waits, so that what was read of it is its own."""
    return _answered(listener, _ID_VALID, _ID.pack(id_))


def _answered(listener: int, request: int, data: bytes) -> bool:
    while True:
        try:
            fcntl.ioctl(listener, request, data)
        except FileNotFoundError:
            return False
        except InterruptedError:  # as it waited for its turn: nothing was done
            continue
        return True


def put_descriptor(listener: int, id_: int, source: int, *, close_on_exec: bool) -> int | None:
    """Puts a copy of our descriptor into a caller, which waits on for its answer: the copy's number there.

    None if the caller does not wait any more.
    """
    request = bytearray(_ADDFD.pack(id_, 0, source, 0, _CLOEXEC if close_on_exec else 0))
    while True:
        try:
            number: int = fcntl.ioctl(listener, _ADD, request)
        except FileNotFoundError:
            return None
        except InterruptedError:  # before the caller took it: nothing was put
            continue
        return number
