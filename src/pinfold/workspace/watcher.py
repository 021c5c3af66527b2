"""Looks at the workspace again and again, so that what the host makes is held without a word.

A file that a person, an editor or another program makes while a session lasts may be one that is hidden or
protected. What the pens themselves make, their wardens see. A walk that remembers (`walk`) costs some
milliseconds, so it is made by a thread, every two seconds, and less often where it takes long: never more
than a fiftieth of the time. Until then such a file is open to commands; docs/sandbox.md says so.

Why no watch on each directory: a workspace may have more of them than a user has watches, and each new
directory would be open until it has one. The walk is one way for all of them.
"""

import threading
import time
from collections.abc import Callable

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.backend import Found, Survey
from pinfold.sandbox.threads import begin_thread

SECONDS = 2.0
SHARE = 50
KEPT = 4
"""How many policies are looked after, the last ones asked for."""


class WorkspaceWatcher:
    """A survey that goes on by itself. Tells what it finds when that has changed."""

    def __init__(
        self,
        survey: Survey,
        changed: Callable[[SandboxPolicy, Found], None],
        tend: Callable[[], None] = lambda: None,
    ) -> None:
        self.survey = survey
        self.changed = changed
        self.tend = tend
        """Called every two seconds, even during a long walk, for other periodic work."""
        self.lock = threading.Lock()
        self.known: list[tuple[SandboxPolicy, Found]] = []
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None
        self.trouble = ""
        """Why the last round failed: until one succeeds, nothing new may begin."""

    def __call__(self, policy: SandboxPolicy) -> Found:
        """What there is now; from here on the watcher follows this policy. Raises OSError if it cannot."""
        with self.lock:
            found = self.survey(policy)
            self._keep(policy, found)
            if self.thread is None:
                self.thread = begin_thread(self._watch, "lookout")
            return found

    def require_sight(self) -> None:
        """Refuses to go on while the workspace cannot be looked at."""
        if self.trouble:
            self._go_round()  # it may have been a directory that went away just then
        if self.trouble:
            raise ConfinementError(
                f"the workspace cannot be looked through, so nothing is run: {self.trouble}"
            )

    def turn_to(self, survey: Survey) -> None:
        """Looks at other roots from now on; the policies that are looked after stay."""
        with self.lock:
            self.survey = survey

    def _keep(self, policy: SandboxPolicy, found: Found) -> None:
        self.known = [(each, then) for each, then in self.known if each != policy][-KEPT + 1 :]
        self.known.append((policy, found))

    def _watch(self) -> None:
        next_look = time.monotonic()
        while not self.ended.wait(SECONDS):
            began = time.monotonic()
            looks = began >= next_look
            self._go_round(looks)
            if looks:
                next_look = began + SHARE * (time.monotonic() - began)

    def _go_round(self, looks: bool = True) -> None:
        try:
            self.tend()
            for policy, then in list(self.known) if looks else ():
                self._look(policy, then)
            if looks:
                self.trouble = ""
        except Exception as error:  # noqa: BLE001  (a watcher that ends would leave new names open)
            self.trouble = f"{type(error).__name__}: {error}"

    def _look(self, policy: SandboxPolicy, then: Found) -> None:
        with self.lock:
            found = self.survey(policy)
            if found == then or self.ended.is_set():
                return
        self.changed(policy, found)
        # Only now: if the change could not be applied, the next round applies it again.
        with self.lock:
            if any(each == policy for each, _ in self.known):
                self._keep(policy, found)

    def close(self) -> None:
        self.ended.set()
        if self.thread and self.thread is not threading.current_thread():
            self.thread.join()
