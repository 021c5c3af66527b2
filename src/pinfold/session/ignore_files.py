"""The ignore files of a workspace: where they are, and what they say.

They lie in any directory, and a decision must not wait until all of those are looked through: that takes
milliseconds, a decision fractions of one. So who has a thread for it looks through them again and again
(`look_around`), and a decision does so by itself only where nobody has for a while. A file that appears
is seen that much later at the latest; one in a root, or one that is known and changes, is seen at once.
"""

import os
from _thread import allocate_lock
from itertools import islice
from time import monotonic

from msgspec import Struct

from pinfold.model.errors import PolicyError
from pinfold.model.policy import IgnoreMapping
from pinfold.session.unchanged import Mark, mark_of, settled
from pinfold.settings.files import mark, read_text

SECONDS = 2.0
SHARE = 50
"""A large tree is looked through less often: never more than a fiftieth of the time."""
PASSED_OVER = frozenset({".git", "node_modules", ".venv", "__pycache__", ".tox"})
"""Directories that hold thousands of others and nobody's own ignore files."""
NOBODYS = frozenset({"/proc", "/sys"})
"""The kernel's own, where nobody can put an ignore file, and which are without end."""
MOST_DIRECTORIES = 2_000_000
"""Not less than what a survey walks (`walk.MOST_ENTRIES`): commands can make directories, so that an ignore
file lies beyond any smaller number."""


class _Directory(Struct, frozen=True):
    """What a directory held."""

    mark: Mark | None
    """None: it is to be listed again."""
    has_any: bool
    """Whether there are ignore files in it."""
    below: tuple[str, ...]


class IgnoreFiles:
    """May be used from any thread."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._names: tuple[str, ...] = ()
        self._directories: dict[str, _Directory] = {}
        self._files: dict[str, tuple[int, ...] | None] = {}
        self._mapping: IgnoreMapping = {}
        self._walked = float("-inf")
        self._patience = SECONDS
        self._lock = allocate_lock()
        """Held while the trees are walked, so that who began earlier does not tell older news later."""
        self.notices: tuple[str, ...] = ()

    def mapping(self, names: tuple[str, ...]) -> IgnoreMapping:
        """Directory -> patterns, for the ignore files of these names."""
        if not self._is_fresh(names):
            with self._lock:
                if not self._is_fresh(names):
                    self._walk(names)
        return self._mapping

    def look_around(self) -> None:
        """Looks through the trees now, for those who ask within a while. What is wrong is told to them."""
        with self._lock:
            try:
                if self._names:
                    self._walk(self._names)
            except PolicyError:
                self._walked = float("-inf")

    def _is_fresh(self, names: tuple[str, ...]) -> bool:
        is_late = monotonic() - self._walked > self._patience
        return (
            not is_late
            and names == self._names
            and all(mark(path) == known for path, known in self._files.items())
        )

    def _walk(self, names: tuple[str, ...]) -> None:
        """Preconditions: the lock is held."""
        started = monotonic()
        if names != self._names:
            # Not fresh until it is done: the names are others already.
            self._walked, self._directories, self._names = float("-inf"), {}, names
        walked: dict[str, _Directory] = {}
        self.notices = tuple(
            f"{root}: ignore files were looked for in {MOST_DIRECTORIES:,} directories only"
            for root in self._roots
            if not self._is_walked(root, walked)
        )
        self._directories = walked
        found = dict.fromkeys((*(path for path, each in walked.items() if each.has_any), *self._roots))
        paths = {directory: [os.path.join(directory, name) for name in names] for directory in found}
        files = {path: mark(path) for group in paths.values() for path in group}
        mapping = _mapping(paths)
        # The same value stays the same object, so that whoever remembers what it made of it may go on.
        self._mapping = self._mapping if mapping == self._mapping else mapping
        self._files, self._walked = files, monotonic()
        self._patience = max(SECONDS, SHARE * (self._walked - started))

    def _is_walked(self, root: str, walked: dict[str, _Directory]) -> bool:
        """Adds the directories of a tree, level by level; False if there are too many."""
        waiting = [root]
        for path in islice(waiting, MOST_DIRECTORIES):  # it grows as it is walked
            if path not in walked and (directory := self._seen(path)):
                walked[path] = directory
                waiting += directory.below
        return len(waiting) <= MOST_DIRECTORIES

    def _seen(self, path: str) -> _Directory | None:
        """None if it cannot be listed."""
        try:
            known, now = self._directories.get(path), mark_of(path)
            if known and known.mark == now:
                return known
            return self._listed(path, settled(now))
        except OSError:
            return None

    def _listed(self, path: str, lasting: Mark | None) -> _Directory:
        has_any, below = False, []
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name in self._names:
                    has_any = True
                elif entry.name in PASSED_OVER or entry.path in NOBODYS:
                    continue
                elif entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
        return _Directory(lasting, has_any, tuple(below))


def _mapping(paths: dict[str, list[str]]) -> IgnoreMapping:
    texts = {
        # Empty where there is none; bounded, and never waiting for a fifo.
        directory: [(os.path.basename(path), read_text(path) or "") for path in group]
        for directory, group in paths.items()
    }
    if not any(text for group in texts.values() for _, text in group):
        return {}
    from pinfold.policy.ignore import mapping_of

    return mapping_of(texts)
