"""One system call that waits for the warden's answer, and the thread that made it: its caller.

Facts (seccomp_unotify(2), ptrace(2); measured on Linux 6.18):
- The caller's other threads run on: its memory, descriptors and working directory may change at any time. So
  the warden reads each value **once**, and judges and acts on that copy alone.
- `pid` is a thread id of our own pid namespace. If the caller was killed, the id may already belong to
  another thread. `is_waiting`, asked after reading, proves that what was read was the caller's own.
- /proc/TID/cwd can be followed for any process that we may trace. /proc/TID/fd is closed to us if the process
  is not dumpable; pidfd_getfd is not.
- For tracing, a process whose program file it may not read belongs to another user namespace. So does the
  spawner, whose memory is the keeper's, and a thread that shares the spawner's memory until its exec. Their
  paths cannot be read.
- The first line of /proc/TID/status is the thread's name, which the caller chooses. The kernel escapes line
  ends in it. So a field counts only at the beginning of a line.
"""

import errno
import os
from collections.abc import Callable
from resource import prlimit
from signal import SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD
from pinfold.kernel.seccomp import (
    Notification,
    is_valid,
    put_descriptor,
    respond,
    resume,
)
from pinfold.sandbox.linux.protocol.command import RLIMIT_RTTIME
from pinfold.sandbox.linux.warden import watchdog
from pinfold.sandbox.linux.warden.affinity import CallerAffinity
from pinfold.sandbox.linux.warden.caller_state import parse_umask, start_of

CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
"""The flags that creat(2) implies."""
ALL_FLAGS = 0x7FFFFFFF
LAST_DESCRIPTOR = 0x7FFFFFFF
ENDING = sum(1 << number - 1 for number in (SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM))
DIRECTORY = os.O_PATH | os.O_DIRECTORY
STATUS = 4096
"""Bytes to read of /proc/TID/status."""
SIGNALS = (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn")


def _parted(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b":")


def _last_number(status: bytes, field: bytes) -> int:
    return int(status.partition(field)[2].partition(b"\n")[0].split()[-1])


def as_int(register: int) -> int:
    """An argument that the kernel takes as a signed int."""
    return (register & 0xFFFFFFFF) - ((register & 0x80000000) << 1)


def _opened(proc: int, path: bytes) -> int:
    # os.open takes half the time of a call by ctypes, unless it fails.
    try:
        return os.open(path, DIRECTORY, dir_fd=proc)
    except OSError as error:
        return -(error.errno or errno.EIO)


class Caller:
    """INVARIANT: a call is answered once, by one of `resume`, `refuse`, `succeed` and `give`. Before that,
    the warden closes what it holds of the caller's files and sockets. A process that has a file open for
    writing keeps it from being executed (ETXTBSY) and keeps its locks; one that has a socket open keeps its
    port."""

    __slots__ = ("affinity", "arguments", "id", "known", "listener", "number", "pid", "proc")

    def __init__(self, listener: int, proc: int, affinity: CallerAffinity, call: Notification) -> None:
        self.listener = listener
        self.proc = proc
        """The host's /proc, where `pid` is known."""
        self.affinity = affinity
        self.id, self.pid, self.number, self.arguments = call[0], call[1], call[2], call[5:]
        self.known: tuple[int, str] | None = None

    # Reading. What cannot be read is None or negative.

    def text(self, address: int) -> bytes | None:
        """The string at an address in the caller's memory, such as a path."""
        return fast_calls.read_text(self.pid, address)

    def directory(self, descriptor: int) -> int:
        """The directory where a relative path starts, as a descriptor of ours (O_PATH), or -errno."""
        if descriptor == AT_FDCWD:
            return _opened(self.proc, b"%d/cwd" % self.pid)
        if descriptor < 0:
            return -errno.EBADF
        found = _opened(self.proc, start_of(self.pid, descriptor))
        if found != -errno.EACCES:
            return -errno.EBADF if found == -errno.ENOENT else found
        try:
            return self.descriptor(descriptor)
        except OSError as error:
            return -(error.errno or errno.EBADF)

    def descriptor(self, number: int) -> int:
        """A copy of one of the caller's descriptors: it refers to the same open file. Raises OSError.

        From here until the call is answered, a timer interrupts any system call that blocks (`watchdog`).
        """
        if number > LAST_DESCRIPTOR:
            raise OSError(errno.EBADF, "no descriptor has such a number")
        watchdog.begin()
        found = fast_calls.copy_descriptor(self.pid, number)
        if found in fast_calls.NO_HANDLE:
            # Before Linux 6.9, pidfds refer to processes only; a process's threads usually share descriptors.
            found = fast_calls.copy_descriptor(self.process(), number)
        if found < 0:
            raise OSError(-found, "no such descriptor")
        return found

    def process(self) -> int:
        """The process id of the calling thread."""
        return int(self._status().partition(b"\nTgid:")[2].split()[0])

    def numbers_inside(self) -> tuple[int, int]:
        """The process and thread ids of the caller in the innermost pid namespace."""
        status = self._status()
        return _last_number(status, b"\nNStgid:"), _last_number(status, b"\nNSpid:")

    def umask(self) -> int:
        return parse_umask(self._status())

    def _status(self) -> bytes:
        """The status file of the calling thread in /proc. Raises OSError once the thread has ended."""
        status = os.open(f"{self.pid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        try:
            return os.read(status, STATUS)
        finally:
            os.close(status)

    def is_waiting(self) -> bool:
        """Whether the caller still waits, so that everything read before was its own."""
        return is_valid(self.listener, self.id)

    def is_interrupted(self) -> bool:
        """Whether a signal that should end the call is pending for the caller.

        Once we have received a call, only a fatal signal ends it by itself.
        """
        try:
            lines = self._status().split(b"\n")
        except OSError:
            return False
        sets = {name: int(value, 16) for name, _, value in map(_parted, lines) if name in SIGNALS}
        own_fds, shared, blocked, ignored = (sets.get(name, 0) for name in SIGNALS)
        return bool((own_fds | shared) & ~blocked & ~ignored & ENDING)

    # For records, never for decisions.

    def identify(self) -> tuple[int, str]:
        """The tag of the caller's command, and the caller's name of itself. Read once: a call that waits for
        a person may outlive its caller, and another process may have its id by then."""
        if self.known is None:
            self.known = self.tag(), self._program()
        return self.known

    def tag(self) -> int:
        """The tag of the caller's command; 0 if the caller has ended."""
        try:
            return prlimit(self.pid, RLIMIT_RTTIME)[1]
        except OSError:
            return 0

    def _program(self) -> str:
        try:
            name = os.open(f"{self.pid}/comm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except OSError:
            return ""
        try:
            return os.fsdecode(os.read(name, 64)).rstrip("\n")
        except OSError:
            return ""
        finally:
            os.close(name)

    # Answering.

    def resume(self) -> None:
        """The kernel continues the call by itself. Never for a call that only the warden forbids."""
        resume(self.listener, self.id)

    def refuse(self, error: int) -> None:
        respond(self.listener, self.id, error=error)

    def succeed(self) -> None:
        respond(self.listener, self.id)

    def give(self, descriptor: int, close_on_exec: bool, *, truncates: bool = False) -> int:
        """Makes a copy of our descriptor the result of the call, and closes ours: 0. Otherwise an errno, and
        our descriptor stays open: the caller has ended, or has no room for a descriptor.

        With `truncates`, the file loses its contents only once the caller has it: a call that fails for lack
        of room must change nothing.
        """
        kept = self.affinity.pin(self.pid)
        try:
            number = put_descriptor(self.listener, self.id, descriptor, close_on_exec=close_on_exec)
        except OSError as error:
            return error.errno or errno.EMFILE
        finally:
            if kept:
                self.affinity.unpin(self.pid, kept)
        if number is None:
            return errno.ESRCH
        failure = _emptied(descriptor) if truncates else 0
        os.close(descriptor)
        if failure:
            self.refuse(failure)
        else:
            respond(self.listener, self.id, value=number)
        return 0


def _emptied(descriptor: int) -> int:
    """0, or the errno of the failure."""
    try:
        os.ftruncate(descriptor, 0)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


Handler = Callable[[Caller], None]
"""Answers a call, at once or later from another thread."""
