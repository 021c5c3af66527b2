"""Turns at a terminal: one question at a time is open there, from any process, and the output of commands
waits meanwhile.

Facts: `pinfold run a | pinfold run b`, and programs that start several, are one job, and read the same keys.
flock belongs to an open file, so a process that ends releases it. A job in the background is stopped when it
reads keys or changes modes; so it waits for its turn and does not keep it, or the job in front would wait.
"""

import fcntl
import os
from _thread import allocate_lock
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import sleep

_STEP = 0.05
_PTS = 136
"""The kind of device (major number) that a window's terminal is."""


class Turn:
    """Taken from any thread, for a moment by `with`, for a question by `take`."""

    def __init__(self, terminal: str = "") -> None:
        """`terminal` is the path of one that does not control this process."""
        self._terminal = terminal
        self._lock = allocate_lock()
        self._file: int | None = None
        """The terminal, opened for its lock alone; -1 where it is not found."""

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._flock(fcntl.LOCK_EX)
        except BaseException:
            self._lock.release()
            raise
        self._leave_to_the_front()

    def __exit__(self, *_: object) -> None:
        self.give_up()

    def take(self, is_over: Callable[[], bool]) -> bool:
        """Waits for the turn; False if `is_over` comes first. The caller that got it releases it."""
        while not self._lock.acquire(timeout=_STEP):
            if is_over():
                return False
        while not self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB):
            if is_over():
                self._lock.release()
                return False
            sleep(_STEP)
        self._leave_to_the_front()
        return True

    def give_up(self) -> None:
        self._flock(fcntl.LOCK_UN)
        self._lock.release()

    def locked(self) -> bool:
        """Whether this process has it."""
        return self._lock.locked()

    def __del__(self) -> None:
        if self._file is not None and self._file >= 0:
            os.close(self._file)

    def _leave_to_the_front(self) -> None:
        with suppress(OSError):
            if self._file is not None and self._file >= 0 and os.tcgetpgrp(self._file) != os.getpgrp():
                self._flock(fcntl.LOCK_UN)

    def _flock(self, how: int) -> bool:
        """False if another process has it."""
        if self._file is None:
            self._file = _opened(self._terminal)
        try:
            if self._file >= 0:
                fcntl.flock(self._file, how)
        except BlockingIOError:
            return False
        except OSError:  # a terminal that knows no locks
            self._file = -1
        return True


def _opened(terminal: str) -> int:
    """The terminal, or that which controls us by its own name: /dev/tty is one file for all of them."""
    if terminal:
        with suppress(OSError):
            return os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        return -1
    number = _number()
    names = [f"/proc/self/fd/{descriptor}" for descriptor in (0, 1, 2)]
    if os.major(number) == _PTS:
        names.append(f"/dev/pts/{os.minor(number)}")
    for name in names:
        with suppress(OSError):
            if number and os.stat(name).st_rdev == number:
                return os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    return -1


def _number(process: int | str = "self") -> int:
    """The device that controls a process, as proc(5) has it (`tty_nr`); 0 if there is none."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[4])
    except (OSError, ValueError, IndexError):
        return 0


def terminal_of(process: int, descriptors: Sequence[int]) -> str:
    """A path of the terminal that controls another process; these descriptors are open at it or elsewhere.
    Empty if there is none."""
    if not (number := _number(process)):
        return ""
    for descriptor in descriptors:
        with suppress(OSError):
            if os.fstat(descriptor).st_rdev == number:
                return f"/proc/self/fd/{descriptor}"
    return f"/dev/pts/{os.minor(number)}" if os.major(number) == _PTS else ""
