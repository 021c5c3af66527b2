"""Files that the session's commands may read since they made them, known by identity and not by name.

Wardens report each `.env` file that commands make, or give that name. Another file that takes the name later,
as when the host replaces it, has another identity.

A module by itself, so that a session can begin without `env_files`.
"""

from collections.abc import Callable

from pinfold.model.env_files import FileIdentity

MOST = 20_000
"""Beyond that a file is hidden as if the host had made it."""


class MadeInside:
    """Identities, for one session. May be used from any thread."""

    def __init__(self) -> None:
        self._known: set[FileIdentity] = set()
        self.catch_up: Callable[[], None] = lambda: None
        """Returns when all wardens have reported what their commands made until now."""

    def add(self, identity: FileIdentity) -> None:
        if len(self._known) < MOST:
            self._known.add(identity)

    def __contains__(self, identity: FileIdentity) -> bool:
        return identity in self._known

    def __len__(self) -> int:
        return len(self._known)
