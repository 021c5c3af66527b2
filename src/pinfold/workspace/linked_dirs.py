"""What is hidden at the end of a path that leads over a link to a directory.

An ignore file hides `config/key`, and `config` is a link to `other`: what the host puts at that path lies in
`other`, where no pattern reaches it. A command can make such a link before there is anything to hide. So the
directory that a link leads to is looked through once more, under the path that begins with the link.

Facts that shape it:
- Most links matter to no pattern (`Ignore.levels_below`). Where one does, patterns say how deep.
- Links on the way may lead in a circle. Each directory is looked through once for each link outside, and all
  have a limit of steps together, beyond which the workspace is refused.
- A command can make long chains of links (`scan`). The kernel follows forty, and no process comes further.
- A directory is not listed again as long as it has not changed (`dir_cache`).
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pinfold.model.errors import ConfinementError
from pinfold.model.symlinks import real_directory
from pinfold.policy.hidden_paths import HiddenTree, is_too_deep
from pinfold.policy.paths import is_covered
from pinfold.workspace.dir_cache import Mark, listing, mark_of

MOST_STEPS = 100_000
"""Directories. Listing as many takes some seconds, once."""
TOO_MANY = (
    "too many links lead to directories of the workspace, so that what is hidden behind them cannot be found "
    "in time; remove some"
)


class _Seen(NamedTuple):
    """What a directory holds under one path."""

    real: str
    mark: Mark | None
    hidden: tuple[str, ...]
    directories: tuple[str, ...]
    links: tuple[str, ...]


class LinkedDirs:
    """For one set of patterns; remembers what it saw."""

    def __init__(self, hiding: HiddenTree) -> None:
        self._hiding = hiding
        self._seen: dict[str, _Seen] = {}

    def look(self, links: Iterable[str], tops: tuple[str, ...]) -> Iterator[str]:
        """Paths of hidden things that lead over one of these links, or over several."""
        found: dict[str, _Seen] = {}
        for link in links:
            passed: set[str] = set()
            waiting = [*self._led(link, tops)]
            while waiting:
                path, real, levels = waiting.pop()
                if real in passed or is_too_deep(path):
                    continue
                passed.add(real)
                if len(found) >= MOST_STEPS:
                    raise ConfinementError(TOO_MANY)
                seen = found[path] = self._look_into(path, real)
                yield from (f"{path}/{name}" for name in seen.hidden)
                if levels > 1:
                    waiting += ((f"{path}/{name}", f"{real}/{name}", levels - 1) for name in seen.directories)
                for name in seen.links:
                    waiting += self._led(f"{path}/{name}", tops, f"{real}/{name}")
        self._seen = found

    def _led(self, path: str, tops: tuple[str, ...], link: str = "") -> Iterator[tuple[str, str, int]]:
        """Where a link leads, if it is to be looked through there, and how many levels of it."""
        if not self._hiding.may_lead(path):
            return
        real = real_directory(link or path)
        if real and is_covered(real, tops) and (levels := self._hiding.levels_below(path, real)):
            yield path, real, levels

    def _look_into(self, path: str, real: str) -> _Seen:
        known = self._seen.get(path)
        try:
            if known and known.real == real and known.mark == mark_of(real):
                return known
            return self._listed(path, real)
        except OSError:
            return _Seen(real, None, (), (), ())  # what is ours and closed is hidden as a whole

    def _listed(self, path: str, real: str) -> _Seen:
        hides = self._hiding.within(path)
        hidden: list[str] = []
        directories: list[str] = []
        links: list[str] = []
        with listing(real) as (mark, entries):
            for entry in entries:
                is_link = entry.is_symlink()
                is_directory = os.path.isdir(f"{real}/{entry.name}") if is_link else entry.is_dir()
                if hides.is_hidden(entry.name, is_directory):
                    hidden.append(entry.name)
                elif is_directory:
                    (links if is_link else directories).append(entry.name)
        return _Seen(real, mark, tuple(hidden), tuple(directories), tuple(links))
