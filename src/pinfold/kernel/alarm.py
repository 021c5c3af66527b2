"""A timer of one thread's own: whatever the thread waits in ends with EINTR while it stands.

Facts (timer_create(2), signal(7)):
- SIGEV_THREAD_ID sends the signal to that thread; a process has one setitimer, whose signal goes to any.
- A signal that comes before the thread waits ends nothing, so it is sent again and again.
- A handled signal ends connect, and a close that lingers; what Python itself waits in goes on by itself.
- Each timer counts as a pending signal of the user's: there may be no more (EAGAIN).
"""

import ctypes
import struct
from _thread import get_native_id
from types import TracebackType

from pinfold.kernel.syscall import address_of, buffer, libc, number, system_call

_CLOCK_MONOTONIC, _SIGEV_THREAD_ID = 1, 4
_EVENT = struct.Struct("@Piii44x")
"""struct sigevent: value, signal, how it is told, and to which thread."""
_SPEC = struct.Struct("@4l")
"""struct itimerspec: from then on each, and first after; seconds and nanoseconds."""
_syscall = ctypes.CFUNCTYPE(
    ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p
)(("syscall", libc))


class Alarm:
    """Of the thread that makes it; stands within `with`. Raises OSError if there are too many.

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
