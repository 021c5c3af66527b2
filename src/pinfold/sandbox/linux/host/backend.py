"""Pens on this machine: the door the rest of pinfold comes in by.

A command's way, and its cost in the host: pipes, two prlimits that tag the spawner, one message, one short
answer; then its output comes straight from its pipes. The keeper sleeps meanwhile.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from pinfold.sandbox.backend import Elevation, Outside, Survey
from pinfold.sandbox.enforcement import Layer
from pinfold.sandbox.linux.host.keeper_client import Keeping, take
from pinfold.sandbox.linux.host.machine import ask_machine
from pinfold.sandbox.linux.host.session import LinuxSession

PENDING = (Layer.MEMORY,)
"""What only a delegated cgroup closes: accepted where there is none, and named in every result."""


class LinuxBackend:
    """The keeper starts with the first session, and again if it was killed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.keeping: Keeping | None = None
        self.machine = ask_machine()

    def open_session(
        self,
        roots: Sequence[str],
        survey: Survey | None = None,
        outside: Outside | None = None,
        elevation: Elevation | None = None,
    ) -> LinuxSession:
        with self.lock:
            if self.keeping is None or not self.keeping.is_alive():
                if self.keeping:
                    self.keeping.end()
                self.keeping = take()
            keeping = self.keeping
        return LinuxSession(keeping, self.machine, roots, survey, PENDING, outside, elevation)

    def keep_still(self) -> AbstractContextManager[None]:
        # Imported here: only file tools want it, and every run of a command would pay for it.
        from pinfold.sandbox.linux.protocol.rename_lock import renames_locked

        return renames_locked()

    def close(self) -> None:
        """Ends every session."""
        with self.lock:
            if self.keeping:
                self.keeping.end()
            self.keeping = None
