"""One lock for all wardens of the machine: a directory is moved by nobody while a name is made in it.

A session's file tools, which make names outside of every pen, take it too (`kept_still`).

Facts that shape it:
- One warden answers one call at a time, so within a pen nothing moves between the look and the act. Two pens
  may share their roots, of one session or of several that an agent has at a time: one makes `x/hooks` while
  the other renames `x` to `.git`, and neither sees what the other is about to do.
- Only a name that some rule has behind its first component can become protected by the move of a directory
  above it. All others, which are nearly all, need no lock.
- Who makes such names could share the lock, but then a few that do it without a pause would keep it for as
  long as they like: nobody on the machine could move anything meanwhile.
- A directory that is moved to where names are protected is looked through first, which may take most of a
  second, and who moves it to and fro would have the lock again before anybody else finds it free. So who had
  it for long stays away from it for longer.
- flock belongs to an open file: each warden opens the directory anew. Who can read a directory can lock it,
  so it is one that no command sees (`charge`).

Accepted: a program outside of every fence could hold the lock; meanwhile renames would be refused (EBUSY),
and whatever file tools change. Where the machine has no /run, or a link there, only the wardens of one
session share a lock, and file tools have none.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

COMMON = "/run"
HOLDER = f"another pen, or a program that has locked {COMMON}, does not let go"
"""Whose fault it is that nothing moves: a lock does not tell."""
LOCKED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PATIENCE = 10.0
"""Seconds: longer than a repository may take to be born (`git`)."""
PAUSE, STEP = 0.0001, 0.001
BRIEF = 0.05
"""Seconds that count as nothing: hardly any move takes as long, nor does a repository's birth as a rule."""
AWAY = 3
"""For how many times as long as a warden had the lock it stays away from it."""
LONGEST_AWAY = 1.0
"""Seconds: all calls of its pen wait meanwhile."""


class Moving:
    def __init__(
        self,
        descriptor: int,
        tails: frozenset[str],
        roots: Mapping[str, int] | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.descriptor = descriptor
        self.roots = roots or {}
        """Directories whose own move counts: descriptors of them outside of the pen, by their paths in it."""
        self.tails = tails
        """Names that can become protected by where their directory comes to stand."""
        self.locked = False
        self.meanwhile = meanwhile
        """Called while we wait: whoever has the lock may wait for us (`neighbours`)."""
        self.since = 0.0
        self.away_until = 0.0

    def hold(self) -> None:
        """Until `release`: no other warden moves anything or makes such a name."""
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
        """What time it is then."""
        self.meanwhile()
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
def kept_still() -> Iterator[None]:
    """For who is in no pen: no warden moves anything or makes such a name meanwhile."""
    try:
        descriptor = os.open(COMMON, LOCKED)
    except OSError:
        descriptor = -1
    if descriptor < 0:
        yield
        return
    try:
        moving = Moving(descriptor, frozenset())
        moving.hold()
        try:
            yield
        finally:
            moving.release()  # a fork of this process may have the descriptor, too
    finally:
        os.close(descriptor)
