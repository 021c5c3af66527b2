"""Where links lead, for one survey: every link on the way, and its end.

Facts that shape it:
- A command can make links of a hidden name, each to the first of a chain, and every link of that can have a
  path of many parts: twenty thousand of them take `os.path.realpath` an hour, while each command waits.
- The kernel follows forty links, and nobody comes further: it tells so at once (ELOOP).

So all ways of a survey together have so many steps, and a workspace that needs more is refused at once.
"""

import errno
import os
from typing import NamedTuple

from pinfold.model.errors import ConfinementError
from pinfold.model.links import way_of

MOST_STEPS = 200_000
"""Half a second's. Who has a thousand links in a project needs a tenth of it."""
TOO_MANY = (
    "too many links with names that are hidden or protected, so that what they lead to cannot be found in "
    "time; have them taken away"
)


class Way(NamedTuple):
    links: tuple[str, ...]
    """Each where it really lies."""
    left: tuple[str, ...]
    """Directories that it leaves again (`..`): were one of them a link, it would lead elsewhere."""
    end: str
    """Where it leads, whether or not anything is there; empty if nowhere."""


class Ways:
    def __init__(self) -> None:
        self.left = MOST_STEPS
        self.known: dict[str, Way] = {}

    def of(self, path: str) -> Way:
        """Of an absolute path."""
        known = self.known.get(path)
        if known is None:
            known = self.known[path] = self._walked(path)
        return known

    def _walked(self, path: str) -> Way:
        try:
            os.stat(path)
        except OSError as error:
            if error.errno == errno.ELOOP:
                return Way((), (), "")
        links: list[str] = []
        left: list[str] = []
        at = end = ""
        for step in way_of(path):
            self.left -= 1
            if self.left < 0:
                raise ConfinementError(TOO_MANY)
            end = "" if step.is_link else step.place
            if step.is_link:
                links.append(step.place)
            else:
                if len(step.place) < len(at):
                    left.append(at)
                at = step.place
        return Way(tuple(links), tuple(left), end)
