"""One effective policy's confinement, kept for its next commands: its spawner, its warden, what it holds.

Commands have their spawner's uid: one may stop it (SIGSTOP). So the host resumes it before each request, and
gives up one that does not answer for `PATIENCE` seconds. Signals go to it by its pidfd: another process may
have the number of one that has ended.

A result reports what earlier commands left running in the session's other pens. Such a process keeps the
rules that it began with. A later command may ask it, by a port of loopback or a file, to do what that command
may not do itself. No command of another pen sees it in /proc or reaches its unix sockets. So the first result
under other rules names it, with its number.
"""

import _socket
import os
import select
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from pinfold.kernel.process import Pace, pace_of
from pinfold.model.errors import ConfinementError
from pinfold.model.escape_text import quoted
from pinfold.sandbox.linux.host.init_client import InitClient
from pinfold.sandbox.linux.host.pen_draft import PenDraft, is_unchanged
from pinfold.sandbox.linux.host.warden_client import WardenClient

PATIENCE = 5.0
STEP = 0.25
REMEMBERED = 256
"""Commands."""


class PenGone(ConfinementError):  # noqa: N818
    """The pen ended before the command began: nothing was run, and another pen may be made."""


class RootMoved(ConfinementError):  # noqa: N818
    """In the pen the directory is not where it is outside, so nothing was run. Another pen has it there."""


class Pen:
    """May be used from any thread."""

    def __init__(
        self,
        number: int,
        pid: int,
        handle: int,
        control: _socket.socket,
        warden: WardenClient,
        draft: PenDraft,
        environment: dict[str, str],
        pace: Pace,
    ) -> None:
        self.number = number
        self.pid = pid
        self.handle = handle
        """The spawner's pidfd, which is the pen's to close; -1 from then on."""
        self.handling = threading.Lock()
        self.control = control
        self.warden = warden
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
        self.shown = draft.shown
        """What is to be seen in hidden directories, as it was found last."""
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
        return is_unchanged(self.held) and not self.warden.has_ended() and self.keeps_pace()

    def keeps_pace(self) -> bool:
        """Whether commands begin as fast as the keeper's children: one may have slowed down their spawner."""
        try:
            return pace_of(self.pid) == self.pace
        except OSError:
            return True  # it has ended, which the next message to it shows

    def close(self) -> None:
        self.control.close()
        self.warden.close()
        with self.handling:
            if self.handle >= 0:
                os.close(self.handle)
            self.handle = -1


MOST = 10
LONGEST = 200
"""Characters of a line."""


def left_running(others: Iterable[Pen], init: InitClient) -> tuple[str, ...]:
    begun = [pen for pen in others if pen.begun]
    if not begun:
        return ()
    carried = init.carried()
    return tuple(islice((line for pen in begun for line in _left_in(pen, carried)), MOST))


def is_left(pen: Pen, init: InitClient) -> bool:
    """Whether any command of the pen has something running."""
    return bool(pen.begun) and any(_left_in(pen, init.carried()))


def _left_in(pen: Pen, carried: dict[int, int]) -> Iterator[str]:
    for tag, command in list(pen.begun.items()):
        if tag in carried:
            line = command if isinstance(command, str) else " ".join(map(quoted, command))
            line = line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
            yield (
                f"`{line}` still runs in another sandbox of this session, under the rules that it began "
                f"with; to end it: `kill {carried[tag]}`"
            )
        else:
            pen.begun.pop(tag, None)
