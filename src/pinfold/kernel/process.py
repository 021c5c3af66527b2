"""Processes: what one sets for itself and reads of others, and a timer of its own, as far as Python's own
modules cannot.

Facts about processes (prctl(2), pidfd_open(2), process_vm_readv(2), close_range(2)):
- PR_SET_PDEATHSIG is cleared by fork and by an exec that gains privileges, follows the death of the parent
  **thread**, and does not fire for a parent that died before the call: compare getppid() after it.
- PR_SET_DUMPABLE 0 closes /proc/PID/{mem,environ,fd,...} and ptrace to others of the same uid without
  CAP_SYS_PTRACE, and gives the files there to root; exec sets it back.
- A pidfd polls readable when its process has ended. PIDFD_THREAD (6.9) opens that of any thread; without it a
  thread id that is no process id is EINVAL (ENOENT before 6.9).
- pidfd_getfd and process_vm_readv ask for ptrace access to the process; both work on non-dumpable ones for a
  holder of CAP_SYS_PTRACE in its user namespace.
- process_vm_readv of a range that runs into an unmapped page reads what lies before it.

Facts about a timer of one thread's own (timer_create(2), signal(7)):
- SIGEV_THREAD_ID sends the signal to that thread; a process has one setitimer, whose signal goes to any.
- A signal that comes before the thread waits ends nothing, so it is sent again and again.
- A handled signal ends connect, and a close that lingers; what Python itself waits in goes on by itself.
- Each timer counts as a pending signal of the user's: there may be no more (EAGAIN).
"""

import ctypes
import os
import struct
from _thread import get_native_id
from types import TracebackType

from pinfold.kernel.syscall import address_of, buffer, check, libc, number, prctl, system_call

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39
_IOPRIO_WHO_PROCESS = 1
PIDFD_THREAD = os.O_EXCL
LAST_DESCRIPTOR = 0xFFFFFFFF
PAGE = 4096


class Vector(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def set_no_new_privs() -> None:
    """No exec from here on gains privileges; for this thread and its children, for good."""
    prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def has_no_new_privs() -> bool:
    return prctl("PR_GET_NO_NEW_PRIVS", _PR_GET_NO_NEW_PRIVS) == 1


def set_dumpable(dumpable: bool) -> None:
    """Whether others of our uid may look into this process."""
    prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, int(dumpable))


def set_parent_death_signal(number: int) -> None:
    """Sends us this signal when our parent thread ends; 0 sends none."""
    prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, number)


def set_name(name: str) -> None:
    """What `ps` shows of this thread: 15 bytes."""
    prctl("PR_SET_NAME", _PR_SET_NAME, name.encode()[:15])


def close_range(first: int, last: int = LAST_DESCRIPTOR) -> None:
    """Closes the descriptors from first to last."""
    system_call("close_range", first, last, 0)


def close_all_but(keep: set[int]) -> None:
    """Closes every descriptor that is not in the set."""
    first = 0
    for descriptor in sorted(keep):
        if first < descriptor:
            close_range(first, descriptor - 1)
        first = descriptor + 1
    close_range(first)


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Up to `size` bytes of another process: fewer if its mapping ends before."""
    buffer = ctypes.create_string_buffer(size)
    local = Vector(ctypes.addressof(buffer), size)
    remote = Vector(address, size)
    count = libc.process_vm_readv(
        ctypes.c_int(pid),
        ctypes.byref(local),
        ctypes.c_ulong(1),
        ctypes.byref(remote),
        ctypes.c_ulong(1),
        ctypes.c_ulong(0),
    )
    return buffer.raw[: check("process_vm_readv", count)]


def read_string(pid: int, address: int, limit: int = PAGE) -> bytes | None:
    """The NUL-terminated string at an address, without its NUL; None if there is no NUL within the limit."""
    found = b""
    while len(found) < limit:
        # To the end of the page first: the next one may not be there, and most strings need only this.
        here = address + len(found)
        found += (piece := read_memory(pid, here, min(PAGE - here % PAGE, limit - len(found))))
        head, nul, _ = found.partition(b"\0")
        if nul:
            return head
        if not piece:
            break
    return None


Pace = tuple[int, int, set[int], int]
"""What a process inherits of how fast it is: its niceness, its policy, its processors, and the disk's."""


def pace_of(pid: int) -> Pace:
    """Any process of its uid may change these, and none can change them back without privileges."""
    disk = system_call("ioprio_get", _IOPRIO_WHO_PROCESS, pid)
    return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), os.sched_getaffinity(pid), disk


_CLOCK_MONOTONIC, _SIGEV_THREAD_ID = 1, 4
_EVENT = struct.Struct("@Piii44x")
"""struct sigevent: value, signal, kind of notification, and to which thread."""
_SPEC = struct.Struct("@4l")
"""struct itimerspec: from then on each, and first after; seconds and nanoseconds."""
_syscall = ctypes.CFUNCTYPE(
    ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p
)(("syscall", libc))


class Alarm:
    """A timer for the thread that makes it, armed within `with`. Raises OSError if there are too many.

    Preconditions: the process handles the signal, and the thread does not block it.
    """

    def __init__(self, signal: int, seconds: float) -> None:
        event = buffer(_EVENT.pack(0, signal, _SIGEV_THREAD_ID, get_native_id()))
        made = ctypes.c_int()
        system_call("timer_create", _CLOCK_MONOTONIC, event, ctypes.byref(made))
        each = int(seconds), int(seconds % 1 * 1e9)
        self._on, self._off = buffer(_SPEC.pack(*each, *each)), buffer(bytes(_SPEC.size))
        self._call, self._timer = number("timer_settime"), made.value

    def __enter__(self) -> None:
        _syscall(self._call, self._timer, 0, address_of(self._on), None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _syscall(self._call, self._timer, 0, address_of(self._off), None)
