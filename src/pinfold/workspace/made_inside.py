"""Files that commands of a session may read since they made them: by what they are, not by their names.

Their wardens tell of each `.env` file that they make, or give that name. Another file that takes the name
later, as when the host replaces it, is not among them.
"""

from collections.abc import Callable

from pinfold.model.env_files import FileIdentity

MOST = 20_000
"""Beyond that a file is hidden as if the host had made it."""


class MadeInside:
    """A session's. May be used from any thread."""

    def __init__(self) -> None:
        self._known: set[FileIdentity] = set()
        self.catch_up: Callable[[], None] = lambda: None
        """Returns when all wardens have told what they have made by now."""

    def add(self, identity: FileIdentity) -> None:
        if len(self._known) < MOST:
            self._known.add(identity)

    def __contains__(self, identity: FileIdentity) -> bool:
        return identity in self._known

    def __len__(self) -> int:
        return len(self._known)
