"""One lock for all wardens of the machine: no pen moves a directory while a name is made in it.

A session's file tools make names outside every pen; they take the lock too (`renames_locked`).

Facts that shape it:
- One warden answers one call at a time, so within a pen nothing moves between check and act. But two pens may
  share their roots, within one session or among several of an agent. One makes `x/hooks` while the other
  renames `x` to `.git`, and neither sees what the other is about to do.
- Moving a directory above a name can make it protected only if some rule has that name behind its first
  component. All others, which are nearly all, need no lock.
- Wardens that make such names could share the lock. But then a few that do so without a pause could keep it
  as long as they like, and no pen on the machine could move anything meanwhile.
- A directory that moves to where names are protected is searched first, which may take most of a second. A
  warden that moves it to and fro would have the lock again before any other finds it free. So a warden that
  held the lock for long stays away from it for longer.
- flock belongs to an open file: each warden opens the directory anew. A process that can read a directory can
  lock it, so it is one that no command sees (`warden.config`).

Accepted: a program outside every sandbox could hold the lock. Meanwhile renames and changes by file tools
would be denied (EBUSY). If the machine has no /run, or a link there, only the wardens of one session share a
lock, and file tools have none.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

COMMON = "/run"
HOLDER = f"another sandbox, or a program that has locked {COMMON}, does not release the lock"
"""A lock does not tell which process holds it."""
LOCKED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PATIENCE = 25.0
"""Seconds: longer than making a repository may take (`warden.git`)."""
PAUSE, STEP = 0.0001, 0.001
BRIEF = 0.05
"""Seconds that count as nothing: hardly any move takes as long, nor does a new repository normally."""
AWAY = 3
"""A warden that held the lock stays away from it this many times as long."""
LONGEST_AWAY = 1.0
"""Seconds: all calls of its pen wait meanwhile."""


class RenameLock:
    def __init__(
        self,
        descriptor: int,
        tails: frozenset[str],
        roots: Mapping[str, int] | None = None,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self.descriptor = descriptor
        self.roots = roots or {}
        """Directories whose own move matters: descriptors of them outside the pen, by their paths in it."""
        self.tails = tails
        """Names that can become protected when a directory above them moves."""
        self.locked = False
        self.while_waiting = while_waiting
        """Called while we wait: the holder of the lock may wait for our answer (`warden.peer_wardens`)."""
        self.since = 0.0
        self.away_until = 0.0

    def acquire(self) -> None:
        """Until `release`, no other warden moves anything or makes a name of `tails`."""
        if self.locked:
            return
        now = time.monotonic()
        while now < self.away_until:
            now = self._wait(min(self.away_until - now, STEP))
        end = now + PATIENCE
        while not self.locked:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.locked, self.since = True, now
            except BlockingIOError:
                now = self._wait(PAUSE)
                if now > end:
                    raise OSError(errno.EBUSY, HOLDER) from None

    def _wait(self, seconds: float) -> float:
        """Returns the time afterwards."""
        self.while_waiting()
        time.sleep(seconds)
        return time.monotonic()

    def release(self) -> None:
        if self.locked:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            self.locked = False
            now = time.monotonic()
            if (took := now - self.since) > BRIEF:
                self.away_until = now + min(took * AWAY, LONGEST_AWAY)


@contextmanager
def renames_locked() -> Iterator[None]:
    """For processes outside of pens: no warden moves anything or makes such a name meanwhile."""
    try:
        descriptor = os.open(COMMON, LOCKED)
    except OSError:
        descriptor = -1
    if descriptor < 0:
        yield
        return
    try:
        lock = RenameLock(descriptor, frozenset())
        lock.acquire()
        try:
            yield
        finally:
            lock.release()  # a fork of this process may have the descriptor, too
    finally:
        os.close(descriptor)
