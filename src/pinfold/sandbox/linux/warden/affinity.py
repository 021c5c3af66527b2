"""Keeps a caller and the warden on one processor while the caller takes a descriptor from the warden.

Facts (kernel/seccomp.c, kernel/sched; measured on Linux 6.18):
- The caller itself takes the descriptor: the kernel wakes it, it takes the descriptor, and it wakes us.
  Neither wake-up stays on the processor (SYNC_WAKE_UP), so each looks for an idle processor. Waking an idle
  processor of a virtual machine takes some 50 us, and the next call starts on it.
- If a thread may run on one processor only, no other is woken. Threads and programs inherit this, but a
  caller that waits for us starts none.
- Pinning costs two more turns on the processor: 2 us each, or longer if other threads wait for it too. In
  that case no processor is idle, and pinning gains nothing.
- The processors that a thread may run on are one mask, whichever process set it. A mask that was never set
  reads as all processors.
- A thread that waits with a timeout, in vain, takes that processor from the program that it waited for.

So the warden pins a caller to its own processor before it gives the descriptor, and unpins it before it
answers. The warden stays on that processor as long as calls arrive, since moving there anew costs 5 us a
call; after a single call it does not stay. If other threads ran in between, no caller is pinned for a while.

INVARIANT: no caller runs its own code while it is pinned.

Accepted:
- Another thread of the program may set a caller's mask meanwhile. That mask stays, since we undo only our
  own; a mask set within a microsecond of ours is lost.
- If the warden is killed meanwhile, a caller stays pinned. Its pen is at its end then: no call is answered.
- If a caller is killed meanwhile, its thread id may belong to another thread, as with everything done by id.
  The caller was there a moment before, and the kernel reuses ids slowly.
- A mask of fewer than all processors does not gain those that its cpuset gets later.
"""

import os
from time import monotonic

from pinfold.kernel import fast_calls

QUIET = 5
"""Milliseconds without a call after which the warden may run anywhere again."""
LATE, SKIPPED = 0.0002, 32
"""Seconds of pinning that show that other threads ran meanwhile; how many callers are then not pinned."""
UNBOUND = b"\xff" * (fast_calls.MOST_PROCESSORS // 8)
"""The mask for all processors, present or future."""


class CallerAffinity:
    def __init__(self) -> None:
        self.ours = fast_calls.read_affinity(0)
        every = (1 << (os.cpu_count() or 1)) - 1
        self.every = every.to_bytes(len(UNBOUND), "little")[: len(self.ours)]
        self.here = b""
        """The mask of the processor that the warden stays on; empty if it does not."""
        self.byte = self.bit = 0
        """The byte and bit of that processor in a mask."""
        self.skipped = 0
        """How many of the next callers not to pin."""
        self.began = -1.0
        """When the last caller was pinned."""
        self.first = False
        """Whether no caller had been pinned for a while before it."""
        self.idle_timeout: int | None = None
        """Milliseconds to wait for a call before `unpin_self`; None without a limit."""

    def pin(self, thread: int) -> bytes:
        """Pins a caller to our processor. Returns what `unpin` restores, or nothing if it was not pinned."""
        if self.skipped:
            self.skipped -= 1
            return b""
        here = self.here or self._stay()
        theirs = fast_calls.read_affinity(thread) if here else b""
        if not theirs or theirs == here or not theirs[self.byte] & self.bit:
            return b""
        now = monotonic()
        self.first, self.began = now - self.began > QUIET / 1000, now
        return theirs if fast_calls.set_affinity(thread, here) else b""

    def unpin(self, thread: int, theirs: bytes) -> None:
        if fast_calls.read_affinity(thread) == self.here:
            fast_calls.set_affinity(thread, UNBOUND if theirs == self.every else theirs)
        if monotonic() - self.began > LATE:
            self.skipped = SKIPPED
            self.unpin_self()
        elif self.first:
            self.unpin_self()

    def _stay(self) -> bytes:
        processor = fast_calls.processor()
        self.byte, self.bit = processor >> 3, 1 << (processor & 7)
        here = (1 << processor).to_bytes(len(UNBOUND), "little")[: len(self.ours)]
        if here != self.ours and fast_calls.set_affinity(0, here):
            self.here, self.idle_timeout = here, QUIET
        return self.here

    def unpin_self(self) -> None:
        """Lets the warden run anywhere. Call it before starting a thread, which would inherit the one
        processor."""
        if self.here:
            fast_calls.set_affinity(0, UNBOUND if self.ours == self.every else self.ours)
            self.here, self.idle_timeout = b"", None
