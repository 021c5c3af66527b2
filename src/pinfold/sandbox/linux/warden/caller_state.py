"""The umask and the working directory of callers, read at the lowest cost.

Facts about umasks (proc(5), measured):
- Only /proc/TID/status shows a umask: 8 us to open, read and close it, 4 us to read it again. An open status
  file stays that thread's own: once the thread has ended, reading fails (ESRCH), even if another thread got
  its id.
- Only one call changes a umask, and the filter notifies us of it. The change is done by the time the thread
  makes another call; until then it is unknown. Before the first such call, every process of the pen has the
  umask that it started with. Until some umask takes rights from owners, a umask cannot matter to a name that
  only its owner may use.
- The kernel reuses a thread id only after all others, which takes longer than the times below.

Facts about working directories (readlinkat(2); tried on Linux 6.18):
- A link in /proc that is held open (O_PATH, O_NOFOLLOW) is read without a path walk, in half the time. It
  gives the present path: a directory that was changed or moved since is reported as it is now.
- The held link stays that thread's own. Once the thread has ended, or has closed the descriptor, reading
  fails, even if another thread got its id.
- The path of a removed directory ends in " (deleted)". Another directory may have the path by now.

Accepted: a thread that is stopped for longer than `SURELY` between the notification and the change of its
umask. Threads that share its umask may get the old one for a moment after it continues.
"""

import os
from time import monotonic

from pinfold.kernel.files import AT_FDCWD

CALLERS = 32
"""How many threads' status files stay open."""
MOMENT = 0.004
"""Seconds for which a umask that was read stays valid."""
SURELY = 0.1
"""Seconds after which a change of a umask is certainly done."""
MOST_CHANGING = 1024
"""How many threads with a change under way are tracked."""
OWNERS = 0o700
_FIELD = b"\nUmask:\t"
"""Matched with the line end before it, since the first line holds the thread's name, which may be
anything."""


def parse_umask(status: bytes) -> int:
    start = status.index(_FIELD) + len(_FIELD)
    return int(status[start : start + 4], 8)


class CallerUmasks:
    """Sets the warden's umask to the caller's. The kernel must apply it, since a default ACL overrides a
    umask."""

    def __init__(self, proc: int, hears_changes: bool = False) -> None:
        """`hears_changes`: whether `note_change` is called for every change."""
        self.proc = proc
        self.moment = MOMENT if hears_changes else 0.0
        self.may_differ = not hears_changes
        """Whether any caller's umask may differ from ours. The first process of the pen started with ours."""
        self.status: dict[int, int] = {}
        self.known, self.until = 0, 0.0
        """The thread whose umask is surely the same as ours, and until when."""
        self.changing: dict[int, float] = {}
        """Threads whose change may not be done yet, and when it surely is."""
        self.current = os.umask(0o022)
        os.umask(self.current)
        self.bind_owners = bool(self.current & OWNERS)
        """Whether any caller's umask may take rights from owners."""

    def note_change(self, thread: int, umask: int) -> None:
        """A thread is about to change its umask, and that of the threads that share it."""
        self.may_differ, self.until = True, 0.0
        now = monotonic()
        if len(self.changing) >= MOST_CHANGING:
            self._forget(now)
        self.changing[thread] = now + SURELY
        if umask & OWNERS:
            self.bind_owners = True

    def adopt(self, thread: int) -> None:
        """Makes the umask of a thread ours. Raises OSError if it had to be read and the thread has ended."""
        if not self.may_differ:
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
        """Drops the changes that are surely done. If too many are left, the last one stays for all of
        them."""
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
"""How many links stay open."""
HELD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = b" (deleted)"


def start_of(pid: int, descriptor: int) -> bytes:
    """The link in /proc that leads to where a relative path starts."""
    return b"%d/cwd" % pid if descriptor == AT_FDCWD else b"%d/fd/%d" % (pid, descriptor)


class CallerDirectories:
    """Reads where callers' relative paths start."""

    def __init__(self, proc: int) -> None:
        """`proc`: the host's /proc, where callers are known."""
        self.proc = proc
        self.links: dict[tuple[int, int], int] = {}

    def path(self, thread: int, descriptor: int) -> bytes:
        """The path of a caller's directory, by its descriptor; empty if it has none or cannot be read."""
        asked = thread, descriptor
        for _ in range(2):
            try:
                held = self.links.get(asked)
                return _read(self._hold(asked) if held is None else held)
            except OSError:
                # The thread or descriptor is gone. If its number has a new owner, a new link tells.
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
