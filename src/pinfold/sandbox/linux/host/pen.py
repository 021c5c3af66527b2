"""One effective policy's confinement, kept warm: its spawner, its warden's news, what it holds.

Commands have their spawner's uid: one may stop it (SIGSTOP), so it is continued before it is asked, and one
that does not answer for `PATIENCE` seconds is given up. Signals go to it by a handle: the number of one that
has ended may be anybody's.
"""

import _socket
import os
import select
import signal
import threading
import time
from contextlib import suppress

from pinfold.kernel.process import Pace, pace_of
from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host.mount_check import is_held
from pinfold.sandbox.linux.host.pen_draft import Draft
from pinfold.sandbox.linux.host.warden_client import Refusals

PATIENCE = 5.0
STEP = 0.25
REMEMBERED = 256
"""Commands."""


class PenGone(ConfinementError):  # noqa: N818
    """The pen ended before the command began: nothing was run, and another pen may be made."""


class Pen:
    """May be used from any thread."""

    def __init__(
        self,
        number: int,
        pid: int,
        handle: int,
        control: _socket.socket,
        refusals: Refusals,
        draft: Draft,
        environment: dict[str, str],
        pace: Pace,
    ) -> None:
        self.number = number
        self.pid = pid
        self.handle = handle
        """The spawner's pidfd, which is the pen's to close; -1 from then on."""
        self.handling = threading.Lock()
        self.control = control
        self.refusals = refusals
        self.draft = draft
        """What it was built by."""
        self.plan = draft.plan
        self.enforcement = draft.enforcement
        self.environment = environment
        """What a command gets that brings none of its own."""
        self.last_environment: dict[str, str] | None = None
        """What the last one got, which the spawner has in mind."""
        self.pace = pace
        """The keeper's, when it was made: no command can slow that down."""
        self.held = draft.held
        """What is compared before each command; not all of it where that is too much."""
        self.protected = set(draft.protected)
        self.hidden = set(draft.hidden)
        """All that it holds: built so, or its warden was told."""
        self.leads_out = draft.leads_out
        """Whether its programs can reach hosts outside."""
        self.lock = threading.Lock()
        self.begun: dict[int, str | tuple[str, ...]] = {}
        """Its latest commands, by their tags: any may have left something running."""
        self.running = 0
        self.idle_since = time.monotonic()

    def note(self, tag: int, command: str | tuple[str, ...]) -> None:
        """A command begins. Preconditions: the lock is held."""
        if len(self.begun) >= REMEMBERED:
            del self.begun[next(iter(self.begun))]
        self.begun[tag] = command

    def began(self) -> None:
        with self.lock:
            self.running += 1

    def ended(self) -> None:
        with self.lock:
            self.running -= 1
            self.idle_since = time.monotonic()

    def signal(self, number: int) -> None:
        """To the spawner; raises ProcessLookupError once that has ended."""
        with self.handling:
            if self.handle < 0:
                raise ProcessLookupError
            signal.pidfd_send_signal(self.handle, number)

    def wake(self) -> None:
        """A command may have stopped the spawner, which has to report its end."""
        with suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)

    def answers(self, status: int) -> bool:
        """Waits until the spawner has answered there, or is gone; False if it does neither."""
        poll = select.poll()
        poll.register(status, select.POLLIN)
        for _ in range(int(PATIENCE / STEP)):
            if poll.poll(STEP * 1000):
                return True
            self.wake()
        return False

    def is_usable(self) -> bool:
        """Whether another command may begin in it."""
        return is_held(self.held) and not self.refusals.ended and self.keeps_pace()

    def keeps_pace(self) -> bool:
        """Whether commands begin as fast as the keeper's children: one may have slowed down their spawner."""
        try:
            return pace_of(self.pid) == self.pace
        except OSError:
            return True  # it has ended, which is found out where it is told

    def close(self) -> None:
        self.control.close()
        self.refusals.close()
        with self.handling:
            if self.handle >= 0:
                os.close(self.handle)
            self.handle = -1
