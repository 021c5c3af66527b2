"""Files in a project that programs outside obey unasked, though no name tells: a link in the home, or a
variable, leads to them.

`~/.gitconfig` and `~/.bashrc` are often links into a repository of dotfiles, `CLAUDE_CONFIG_DIR` a directory
of the project. What is protected by its name in the home is protected where such a link leads, and so is each
link on the way.

What this means for us: the home is looked at once for each session, a few hundred names. Below a directory
with a protected name, links are looked for two levels deep. A link to a single program in a directory of PATH
is left out: it starts when a person calls it by that name, and is what the project builds.
"""

import os
from collections.abc import Iterator, Mapping
from itertools import islice

from pinfold.model.agent_variables import OBEYED
from pinfold.model.protected_names import GIT
from pinfold.model.symlinks import links_and_target
from pinfold.policy.paths import is_covered
from pinfold.policy.shipped_protected import NameReach, ProtectedName, protected_names

OF_PATH = (".local/bin", ".cargo/bin")
MOST_ENTRIES = 2_000
DEEPEST = 2


class StartupFiles:
    """Preconditions: asked from one thread at a time."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self._home, self._environ = home, environ
        self._led: dict[str, str] | None = None

    def of(self, tops: tuple[str, ...]) -> dict[str, str]:
        """Places in `tops`, whether or not anything is there, and why they are closed."""
        if self._led is None:
            self._led = {place: why for path, why in self._found() for place in links_and_target(path)}
        return {
            place: why
            for place, why in self._led.items()
            if is_covered(place, tops) and not any(is_covered(top, (place,)) for top in tops)
        }

    def _found(self) -> Iterator[tuple[str, str]]:
        """Paths that programs obey and that lead over a link, or that a variable names."""
        for variable in OBEYED:
            path = self._environ.get(variable, "")
            if os.path.isabs(path):
                yield path, f"the variable {variable} names it"
        first = _entries(self._home)
        for each in protected_names():
            if each.reach is NameReach.ANY and each.name.partition("/")[0] in first:
                yield from self._linked(each)

    def _linked(self, protected: ProtectedName) -> Iterator[tuple[str, str]]:
        if protected.name.partition("/")[0] == GIT:
            return
        path = os.path.join(self._home, protected.name)
        if os.path.realpath(path) != path:
            yield path, f"{path} leads there: {protected.why}"
        elif protected.name not in OF_PATH:
            yield from ((link, f"{link} leads there: {protected.why}") for link in _links_in(path))


def _links_in(directory: str) -> Iterator[str]:
    waiting = [(directory, 1)]
    left = MOST_ENTRIES
    for place, depth in waiting:  # which grows meanwhile
        for name, is_link in islice(_entries(place).items(), max(0, left)):
            left -= 1
            path = os.path.join(place, name)
            if is_link:
                yield path
            elif depth < DEEPEST and is_link is None:
                waiting.append((path, depth + 1))


def _entries(directory: str) -> dict[str, bool | None]:
    """Names in it; whether each is a link, and None of a directory."""
    try:
        with os.scandir(directory) as entries:
            return {
                entry.name: True if entry.is_symlink() else None if entry.is_dir() else False
                for entry in entries
            }
    except OSError:
        return {}
