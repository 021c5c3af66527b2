"""What commands were refused, in full: for the journal, for reports, and for the next question about it."""

import os
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from pinfold.model.decision import Decision
from pinfold.model.settings import Settings

if TYPE_CHECKING:
    from pinfold.model.violation import Violation

MOST_REFUSED = 64
"""Of how many lines it is remembered what they were refused."""


class Explanations:
    """A session's. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._last: OrderedDict[str, tuple[Violation, ...]] = OrderedDict()
        """What each line was refused when it last ran in the fence, and was refused something."""

    def of(self, line: str) -> "tuple[Violation, ...]":
        return self._last.get(line, ())

    def explained(
        self,
        violations: "tuple[Violation, ...]",
        settings: Settings,
        roots: tuple[str, ...],
        line: str,
        decision: Decision,
        home: str,
        own: Callable[[], tuple[str, ...]],
    ) -> "tuple[tuple[Violation, ...], tuple[Violation, ...]]":
        """All that was refused, and what of it is to be reported."""
        from pinfold.network.listeners import is_heard
        from pinfold.policy.explain_violation import explained, heard, is_ignored
        from pinfold.workspace.git_dirs import is_open_to_git

        policy = decision.policy
        told = heard(violations, is_heard)

        def is_gits(path: str) -> bool:
            return is_open_to_git(path, roots, policy.protected)

        every = tuple(
            explained(each, settings, line, policy, roots, home, os.path.exists, _may_write, own, is_gits)
            for each in told
        )
        with self._lock:
            self._last[line] = every
            if len(self._last) > MOST_REFUSED:
                self._last.popitem(last=False)
        commands = [command.text for command in decision.commands]
        return every, tuple(each for each in every if not is_ignored(each, settings, commands))


def _may_write(path: str) -> bool:
    """Whether it, or the nearest directory that is there, is the user's to change: if not, no leave helps."""
    while path.strip("/") and not os.path.lexists(path):
        path = os.path.dirname(path)
    try:
        return bool(path) and (os.access(path, os.W_OK) or os.lstat(path).st_uid == os.geteuid())
    except OSError:  # what the command left running has taken it away
        return False
