"""What the disk says, for decisions: the live side of `model.facts.Files`.

What only a line outside of the fence needs is imported when it is needed; inside is the usual case.
"""

import os
from collections.abc import Iterator
from itertools import islice
from time import monotonic

from msgspec import Struct

from pinfold.model.links import PATH_MAX, way_of
from pinfold.model.policy import IgnoreMapping
from pinfold.settings.files import mark, read_text

MOST_MATCHES = 1_000
LONGEST_PATH = 2 * PATH_MAX
"""Bytes: of one that a call takes, and of the directory that it starts in."""
REMOVED = " (deleted)"
"""What the kernel adds to the path of something that has none any more."""
# Directories that hold thousands of others and nobody's own ignore files.
PASSED_OVER = frozenset({".git", "node_modules", ".venv", "__pycache__", ".tox"})
NOBODYS = frozenset({"/proc", "/sys"})
"""The kernel's own, where nobody can put an ignore file, and which are without end."""
MOST_DIRECTORIES = 2_000_000
"""Not less than what a survey walks (`walk.MOST_ENTRIES`): commands can make directories, so that an ignore
file lies beyond any smaller number."""


class Disk:
    """The file system as it is now, for one decision."""

    def __init__(self) -> None:
        self.followed: dict[str, str] = {}
        """Where paths led. A line may name thousands, and one decision asks for each of them many times."""
        self.was_searched = False
        """Whether anything else was asked."""

    def real(self, path: str) -> str:
        found = self.followed.get(path)
        if found is None:
            found = self.followed[path] = real_path(path)
        return found

    def expand(self, pattern: str) -> tuple[str, ...] | None:
        from glob import iglob

        from pinfold.session.globs import literals, ways, widened

        self.was_searched = True
        found = [self.real(path) for path in literals(pattern) if os.path.lexists(path)]
        wide = widened(pattern)
        if wide is None or any(map(self.is_process_own, literals(pattern))):
            return None
        try:
            # A link on the way counts though nothing matches behind it: for the program something may.
            for way in ways(wide):
                for count, path in enumerate(iglob(way, recursive=True, include_hidden=True), 1):
                    if count > MOST_MATCHES or self.is_process_own(path):
                        return None
                    if way == wide:
                        found.append(self.real(path))
        except (OSError, ValueError, RecursionError):
            return None
        return tuple(found)

    def is_process_own(self, path: str) -> bool:
        from pinfold.policy.places import is_own_process

        if ".." not in path and self.real(path) == os.path.normpath(path):
            return is_own_process(path)  # there is no link on the way
        self.was_searched = True
        return any(is_own_process(step.place) for step in way_of(path))

    def is_directory(self, path: str) -> bool:
        self.was_searched = True
        return os.path.isdir(path)

    def is_there(self, path: str) -> bool:
        self.was_searched = True
        return os.path.lexists(path)

    def is_git_ignored(self, path: str) -> bool:
        from pinfold.policy.ignore import Ignore, mapping_of
        from pinfold.session.git import find_repository

        self.was_searched = True
        found = find_repository(os.path.dirname(path))
        if found is None:
            return False
        top, repository = found.top, found.common
        files = {top: [("exclude", _read(os.path.join(repository, "info", "exclude")))]}
        for directory in _between(top, os.path.dirname(path)):
            files.setdefault(directory, []).append(
                (".gitignore", _read(os.path.join(directory, ".gitignore")))
            )
        return Ignore(mapping_of(files)).is_ignored(path)

    def git_helpers(self, directory: str) -> tuple[str, ...]:
        from pinfold.session.git import git_helpers

        self.was_searched = True
        return git_helpers(directory)


def real_path(path: str) -> str:
    """As `os.path.realpath`, for any text: a path that no system call would take leads where it says."""
    try:
        if len(os.fsencode(path)) > LONGEST_PATH:
            return os.path.normpath(path)
        return _walked_by_kernel(path) or os.path.realpath(path)
    except (OSError, ValueError, RecursionError):  # a chain of links longer than Python's stack
        return os.path.normpath(path)


def _walked_by_kernel(path: str) -> str:
    """Where something is that is there, in three calls instead of one for each part of its path; empty where
    the kernel has no path of it to tell."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return found if found.startswith("/") and not found.endswith(REMOVED) else ""


def _between(top: str, bottom: str) -> Iterator[str]:
    """Every directory from `top` down to `bottom`."""
    yield top
    for part in os.path.relpath(bottom, top).split(os.sep):
        if part not in (".", ".."):
            top = os.path.join(top, part)
            yield top


def _read(path: str) -> str:
    """The text of an ignore file, empty where there is none; bounded, and never waiting for a fifo."""
    return read_text(path) or ""


class IgnoreFiles:
    """The ignore files of the workspace, looked for anew every so often."""

    # Walking the tree costs milliseconds, a decision fractions of one. A file that appears is seen this
    # much later at the latest; one that is known and changes is seen at once.
    REFRESH_SECONDS = 2.0

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._names: tuple[str, ...] = ()
        self._files: dict[str, tuple[int, ...] | None] = {}
        self._mapping: IgnoreMapping = {}
        self._walked = float("-inf")
        self._patience = self.REFRESH_SECONDS
        self.notices: tuple[str, ...] = ()

    def mapping(self, names: tuple[str, ...]) -> IgnoreMapping:
        """Directory -> patterns, for the ignore files of these names."""
        stale = monotonic() - self._walked > self._patience
        if stale or names != self._names or any(mark(path) != known for path, known in self._files.items()):
            self._walk(names)
        return self._mapping

    def _walk(self, names: tuple[str, ...]) -> None:
        started = monotonic()
        walks = [_ignore_files(root, frozenset(names)) for root in self._roots]
        found = [directory for walk in walks for directory in walk.found]
        self.notices = tuple(
            f"{root}: ignore files were looked for in {MOST_DIRECTORIES:,} directories only"
            for root, walk in zip(self._roots, walks, strict=True)
            if not walk.whole
        )
        paths = {directory: [os.path.join(directory, name) for name in names] for directory in found}
        paths |= {root: [os.path.join(root, name) for name in names] for root in self._roots}
        self._files = {path: mark(path) for group in paths.values() for path in group}
        mapping = _mapping(paths)
        # The same value stays the same object, so that whoever remembers what it made of it may go on.
        self._mapping = self._mapping if mapping == self._mapping else mapping
        self._names, self._walked = names, monotonic()
        # A large tree is walked less often: never more than a fiftieth of the time.
        self._patience = max(self.REFRESH_SECONDS, 50 * (self._walked - started))


def _mapping(paths: dict[str, list[str]]) -> IgnoreMapping:
    texts = {
        directory: [(os.path.basename(path), _read(path)) for path in group]
        for directory, group in paths.items()
    }
    if not any(text for group in texts.values() for _, text in group):
        return {}
    from pinfold.policy.ignore import mapping_of

    return mapping_of(texts)


class _Walk(Struct, frozen=True):
    found: list[str]
    """Directories that have an ignore file."""
    whole: bool
    """Whether every directory was looked at."""


def _ignore_files(root: str, names: frozenset[str]) -> _Walk:
    found: list[str] = []
    waiting = [root]
    for directory in islice(waiting, MOST_DIRECTORIES):  # `waiting` grows as it is walked, level by level
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name in names:
                        found.append(directory)
                    elif entry.name in PASSED_OVER or entry.path in NOBODYS:
                        continue
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return _Walk(list(dict.fromkeys(found)), len(waiting) <= MOST_DIRECTORIES)
