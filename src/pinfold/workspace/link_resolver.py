"""Where links lead, for one survey: every link on the way, and its end.

Facts that shape it:
- A command can make links of a hidden name, each to the first of a chain, and every link of that can have a
  path of many parts: twenty thousand of them take `os.path.realpath` an hour, while each command waits.
- The kernel follows forty links (path_resolution(7)), and nobody comes further.
- The kernel cannot be asked whether it would: while others rename things, it begins anew in the middle of a
  path, counts the links that it has seen once more (fs/namei.c), and tells of too many (ELOOP) after twenty.

So all ways of a survey together have so many steps, and a workspace that needs more is refused at once.
"""

from typing import NamedTuple

from pinfold.model.errors import ConfinementError
from pinfold.model.symlinks import MOST_LINKS, walk_path

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
        self.endless: set[str] = set()
        """Links with too many others behind them for anybody to come to their end."""

    def of(self, path: str) -> Way:
        """Of an absolute path."""
        known = self.known.get(path)
        if known is None:
            known = self.known[path] = self._walked(path)
        return known

    def _walked(self, path: str) -> Way:
        links: list[str] = []
        last: list[tuple[int, str]] = []
        left: list[str] = []
        at = end = ""
        # Further than anybody comes, so that most of an endless chain is known by one walk.
        for step in walk_path(path, 2 * MOST_LINKS):
            self.left -= 1
            if self.left < 0:
                raise ConfinementError(TOO_MANY)
            if step.place in self.endless:
                return self._nowhere(last, len(links) + 1 + MOST_LINKS)
            end = "" if step.is_link else step.place
            if step.is_link:
                if step.is_last:
                    last.append((len(links), step.place))
                links.append(step.place)
            else:
                if len(step.place) < len(at):
                    left.append(at)
                at = step.place
        if len(links) > MOST_LINKS:
            return self._nowhere(last, len(links))
        return Way(tuple(links), tuple(left), end)

    def _nowhere(self, last: list[tuple[int, str]], links: int) -> Way:
        """`last`: the links that all others behind them belong to, each with how many came before it."""
        self.endless.update(place for before, place in last if links - before > MOST_LINKS)
        return Way((), (), "")
