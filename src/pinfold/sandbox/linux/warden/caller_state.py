"""The umasks of callers, read as cheaply as they can be.

Facts (proc(5), measured):
- Only /proc/TID/status tells a umask: 8 us to open, read and close it, 4 to read it again. What was opened
  stays the same thread's: once that has ended reading fails (ESRCH), whoever has its number by then.
- A umask is changed by one call alone, which the filter tells; it is done when the thread makes another, and
  till then nobody knows. Before the first, every process of the pen has the one it was made with, and before
  the first that takes rights from owners, no umask means anything to a name that is its owner's alone.
- The number of a thread that has ended is given out again when all others were, which takes longer than a
  moment.

Accepted: a thread that is stopped for longer than `SURELY` between the telling and the doing. Others that
share its umask may, for a moment after it goes on, get the one before.

Where callers' relative paths start, asked as cheaply as can be.

Facts (proc(5), readlinkat(2); tried on Linux 6.18):
- A link in /proc that is held (O_PATH, O_NOFOLLOW) is read without a walk, in half the time, and says where
  it leads now: a directory that was changed or moved since is told as it is.
- It stays the same thread's. Once that has ended, or has closed the descriptor, reading fails, whoever has
  its number by then.
- The path of a directory that was removed is told with an ending. Something else may have it by now.
"""

import os
from time import monotonic

from pinfold.kernel.files import AT_FDCWD

CALLERS = 32
"""Of how many threads the file is kept open."""
MOMENT = 0.004
"""Seconds that a umask is known for without being read again."""
SURELY = 0.1
"""Seconds after which a change is done, whatever its thread does since."""
MOST_CHANGING = 1024
"""How many threads are told apart that may not yet have theirs."""
OWNERS = 0o700
_FIELD = b"\nUmask:\t"
"""At the beginning of a line: the first has the thread's name, where anything else may stand."""


def parse_umask(status: bytes) -> int:
    start = status.index(_FIELD) + len(_FIELD)
    return int(status[start : start + 4], 8)


class Umasks:
    """Takes over a caller's umask, since it is the kernel's to apply: a default ACL passes over it."""

    def __init__(self, proc: int, told: bool = False) -> None:
        """`told`: whether we `hear` of every change."""
        self.proc = proc
        self.moment = MOMENT if told else 0.0
        self.differ = not told
        """Whether any caller's may be another than ours. Whoever started the pen's first had ours."""
        self.status: dict[int, int] = {}
        self.known, self.until = 0, 0.0
        """The thread whose umask is surely ours, and for how long."""
        self.changing: dict[int, float] = {}
        """Threads that may not yet have what we have heard of, and when they surely do."""
        self.current = os.umask(0o022)
        os.umask(self.current)
        self.bind_owners = bool(self.current & OWNERS)
        """Whether any caller's might."""

    def hear(self, thread: int, umask: int) -> None:
        """A thread is about to have this one, and so are those that share it."""
        self.differ, self.until = True, 0.0
        now = monotonic()
        if len(self.changing) >= MOST_CHANGING:
            self._forget(now)
        self.changing[thread] = now + SURELY
        if umask & OWNERS:
            self.bind_owners = True

    def take_over(self, thread: int) -> None:
        """Makes the umask of a thread ours. Raises OSError if it had to be asked and is not there."""
        if not self.differ:
            return
        now = monotonic()
        if thread == self.known and now < self.until:
            return
        if self.changing:
            self.changing.pop(thread, None)
            self._forget(now)
        umask = parse_umask(self._read(thread))
        if umask != self.current:
            os.umask(umask)
            self.current = umask
        self.known, self.until = thread, 0.0 if self.changing else now + self.moment

    def _forget(self, now: float) -> None:
        """Those who surely have theirs; the last one stands for the others where they are too many."""
        left = {other: end for other, end in self.changing.items() if end > now}
        self.changing = left if len(left) < MOST_CHANGING else dict([left.popitem()])

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


LINKS = 32
"""How many are held."""
HELD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = b" (deleted)"


def start_of(pid: int, descriptor: int) -> bytes:
    """The link in /proc to where a relative path starts."""
    return b"%d/cwd" % pid if descriptor == AT_FDCWD else b"%d/fd/%d" % (pid, descriptor)


class Starts:
    def __init__(self, proc: int) -> None:
        """`proc`: the host's /proc, where callers are known."""
        self.proc = proc
        self.links: dict[tuple[int, int], int] = {}

    def path(self, thread: int, descriptor: int) -> bytes:
        """Of a caller's directory, by its descriptor; empty if that has none, or cannot be told."""
        asked = thread, descriptor
        for _ in range(2):
            try:
                held = self.links.get(asked)
                return _read(self._hold(asked) if held is None else held)
            except OSError:
                # Of what came of its number since, if anything did, another link tells.
                if (held := self.links.pop(asked, None)) is not None:
                    os.close(held)
        return b""

    def _hold(self, asked: tuple[int, int]) -> int:
        if len(self.links) >= LINKS:
            os.close(self.links.pop(next(iter(self.links))))
        link = self.links[asked] = os.open(start_of(*asked), HELD, dir_fd=self.proc)
        return link


def _read(link: int) -> bytes:
    path = os.readlink(b"", dir_fd=link)
    return b"" if path.endswith(GONE) else path
