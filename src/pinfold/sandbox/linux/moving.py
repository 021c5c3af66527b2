"""One lock for all wardens of the machine: a directory is moved by nobody while a name is made in it.

Facts that shape it:
- One warden answers one call at a time, so within a pen nothing moves between the look and the act. Two pens
  may share their roots, of one session or of several that an agent has at a time: one makes `x/hooks` while
  the other renames `x` to `.git`, and neither sees what the other is about to do.
- Only a name that some rule has behind its first component can become protected by the move of a directory
  above it. All others, which are nearly all, need no lock.
- Who makes such names could share the lock, but then a few that do it without a pause would keep it for as
  long as they like: nobody on the machine could move anything meanwhile.
- flock belongs to an open file: each warden opens the directory anew. Who can read a directory can lock it,
  so it is one that no command sees (`charge`).

Accepted: a program outside of every fence could hold the lock; meanwhile renames would be refused (EBUSY).
Where the machine has no /run, or a link there, only the wardens of one session share a lock.
"""

import errno
import fcntl
import time
from collections.abc import Callable, Iterable

from pinfold.model.names import NameRule, components

PATIENCE = 10.0
"""Seconds: longer than a repository may take to be born (`git`), which no directory is moved meanwhile."""
PAUSE = 0.0001


class Moving:
    def __init__(self, descriptor: int, rules: Iterable[NameRule], meanwhile: Callable[[], None]) -> None:
        """`meanwhile` is called while we wait: whoever has the lock may wait for us (`neighbours`)."""
        self.descriptor = descriptor
        self.tails = frozenset(part for rule in rules for part in components(rule.name)[1:])
        """Names that can become protected by where their directory comes to stand."""
        self.locked = False
        self.meanwhile = meanwhile

    def hold(self) -> None:
        """Until `release`: no other warden moves anything or makes such a name."""
        if self.locked:
            return
        end = time.monotonic() + PATIENCE
        while not self.locked:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.locked = True
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError(errno.EBUSY, "another pen does not come to an end") from None
                self.meanwhile()
                time.sleep(PAUSE)

    def release(self) -> None:
        if self.locked:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            self.locked = False
