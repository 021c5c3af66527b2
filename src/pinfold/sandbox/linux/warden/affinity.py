"""Keeps a caller and us on one processor while it takes a descriptor from us.

Facts (kernel/seccomp.c, kernel/sched; measured on Linux 6.18):
- A descriptor is taken by the caller itself: it is woken, takes it, and wakes us. Neither wake is one that
  stays on the processor (SYNC_WAKE_UP), so each looks for an idle one. To wake an idle processor of a
  virtual machine takes some 50 us, and the next call begins on it.
- Where only one processor may be run on, no other is woken. Threads inherit what they may run on, and so do
  programs; but a caller that waits for us starts none.
- To be kept costs two more turns on the processor: 2 us each, or for as long as others please who wait for it
  too. Where they do no processor is idle, and to be kept brings nothing.
- What a thread may run on is one mask, whoever set it: one that was never set is told as all there are.
- Who waits for a while to find that nobody came takes that processor from the program that it waited for.

What this means for us: a caller is kept where we are before it gets the descriptor, and set free before it
has its answer. We stay on that processor for as long as calls come, since to stay anew costs 5 us a call; but
after a single one we do not. Where others had their turns in between, nobody is kept for a while.

INVARIANT: no caller runs its own code while it is kept.

Accepted:
- Another thread of the program may set a caller's mask meanwhile. That stands, for what is no longer ours is
  not undone; only one set within a microsecond of ours is lost.
- If we are killed meanwhile, a caller stays kept. Its pen is at its end then: nobody answers in it.
- A caller that is killed meanwhile may have left its number to another, as with all that is done by number:
  it was there a moment before, and numbers go round slowly.
- To a mask of fewer processors than there are, those are not added that its cpuset gets later.
"""

import os
from time import monotonic

from pinfold.kernel import fast_calls

QUIET = 5
"""Milliseconds without a call after which we stay nowhere."""
LATE, PLAIN = 0.0002, 32
"""Seconds that a caller was kept after which others have run meanwhile; how many are not kept then."""
UNBOUND = b"\xff" * (fast_calls.MOST_PROCESSORS // 8)
"""Whatever is there or will be: what a mask of all processors stands for."""


class Turns:
    def __init__(self) -> None:
        self.ours = fast_calls.read_affinity(0)
        every = (1 << (os.cpu_count() or 1)) - 1
        self.every = every.to_bytes(len(UNBOUND), "little")[: len(self.ours)]
        self.here = b""
        """The processor that we stay on, as a mask; empty while it is none."""
        self.byte = self.bit = 0
        """Where it is found in one."""
        self.plain = 0
        """How many callers are not to be kept."""
        self.began = -1.0
        """When the last caller came near."""
        self.first = False
        """Whether nobody had for a while."""
        self.patience: int | None = None
        """How long to wait for a call before we `rest`."""

    def draw_near(self, thread: int) -> bytes:
        """Keeps a caller where we are; what `let_go` gives back to it, or nothing if it is not kept."""
        if self.plain:
            self.plain -= 1
            return b""
        here = self.here or self._stay()
        theirs = fast_calls.read_affinity(thread) if here else b""
        if not theirs or theirs == here or not theirs[self.byte] & self.bit:
            return b""
        now = monotonic()
        self.first, self.began = now - self.began > QUIET / 1000, now
        return theirs if fast_calls.set_affinity(thread, here) else b""

    def let_go(self, thread: int, theirs: bytes) -> None:
        if fast_calls.read_affinity(thread) == self.here:
            fast_calls.set_affinity(thread, UNBOUND if theirs == self.every else theirs)
        if monotonic() - self.began > LATE:
            self.plain = PLAIN
            self.rest()
        elif self.first:
            self.rest()

    def _stay(self) -> bytes:
        processor = fast_calls.processor()
        self.byte, self.bit = processor >> 3, 1 << (processor & 7)
        here = (1 << processor).to_bytes(len(UNBOUND), "little")[: len(self.ours)]
        if here != self.ours and fast_calls.set_affinity(0, here):
            self.here, self.patience = here, QUIET
        return self.here

    def rest(self) -> None:
        """We run anywhere again; before any thread is started, which would stay with us for good."""
        if self.here:
            fast_calls.set_affinity(0, UNBOUND if self.ours == self.every else self.ours)
            self.here, self.patience = b"", None
