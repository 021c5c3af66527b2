"""The umasks of callers, read as cheaply as they can be.

Facts (proc(5), measured):
- Only /proc/TID/status tells a umask: 8 us to open, read and close it, 4 to read it again. What was opened
  stays the same thread's: once that has ended reading fails (ESRCH), whoever has its number by then.
- A umask may change at any time, by a call that nobody is told of. So it is read for every name that is made
  for more than its owner. But a call that takes rights from owners is told: before the first, no umask means
  anything to a name that is its owner's alone.
"""

import os

CALLERS = 32
"""Of how many threads the file is kept open."""
_FIELD = b"Umask:\t"


def parse_umask(status: bytes) -> int:
    start = status.index(_FIELD) + len(_FIELD)
    return int(status[start : start + 4], 8)


class Umasks:
    """Takes over a caller's umask, since it is the kernel's to apply: a default ACL passes over it."""

    def __init__(self, proc: int) -> None:
        self.proc = proc
        self.status: dict[int, int] = {}
        self.current = os.umask(0o022)
        os.umask(self.current)
        self.bind_owners = bool(self.current & 0o700)
        """Whether any caller's might. Whoever started the pen's first had ours."""

    def take_over(self, thread: int) -> None:
        """Makes the umask of a thread ours. Raises OSError if it is not there."""
        umask = parse_umask(self._read(thread))
        if umask != self.current:
            os.umask(umask)
            self.current = umask

    def _read(self, thread: int) -> bytes:
        kept = self.status.get(thread)
        if kept is not None:
            try:
                return os.pread(kept, 256, 0)
            except OSError:
                os.close(self.status.pop(thread))
        if len(self.status) >= CALLERS:
            os.close(self.status.pop(next(iter(self.status))))
        opened = os.open(f"{thread}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        self.status[thread] = opened
        return os.pread(opened, 256, 0)
