"""What the disk says, for decisions: the live side of `model.facts.Files`.

What only a line outside of the fence needs is imported when it is needed; inside is the usual case.
"""

import os
from collections.abc import Iterator
from itertools import islice
from time import monotonic

from pinfold.model.errors import PolicyError
from pinfold.model.policy import IgnoreMapping
from pinfold.policy.ignore import Ignore, mapping_of

MOST_MATCHES = 1_000
# Directories that hold thousands of others and nobody's own ignore files.
PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox"})
MOST_DIRECTORIES = 2_000
LARGEST_IGNORE_FILE = 1_000_000


class Disk:
    """The file system as it is now."""

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def expand(self, pattern: str) -> tuple[str, ...] | None:
        from glob import iglob

        found: list[str] = []
        # `*` passes over dotfiles in the shell, but `shopt -s dotglob` may be on: look at both.
        for path in iglob(pattern, include_hidden=True):
            found.append(os.path.realpath(path))
            if len(found) > MOST_MATCHES:
                return None
        return tuple(found)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_git_ignored(self, path: str) -> bool:
        from pinfold.session.git import find_repository

        repository = find_repository(os.path.dirname(path))
        if repository is None or os.path.basename(repository) != ".git":
            return False
        top = os.path.dirname(repository)
        files = {top: [("exclude", _read(os.path.join(repository, "info", "exclude")))]}
        for directory in _between(top, os.path.dirname(path)):
            files.setdefault(directory, []).append(
                (".gitignore", _read(os.path.join(directory, ".gitignore")))
            )
        return Ignore(mapping_of(files)).is_ignored(path)

    def git_helpers(self, directory: str) -> tuple[str, ...]:
        from pinfold.session.git import git_helpers

        return git_helpers(directory)


def _between(top: str, bottom: str) -> Iterator[str]:
    """Every directory from `top` down to `bottom`."""
    yield top
    for part in os.path.relpath(bottom, top).split(os.sep):
        if part not in (".", ".."):
            top = os.path.join(top, part)
            yield top


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(LARGEST_IGNORE_FILE)
    except (FileNotFoundError, IsADirectoryError):
        return ""
    except OSError as error:
        # What an unreadable ignore file hides is not known, and a doubt falls to no.
        raise PolicyError("the ignore file cannot be read", where=path, help="check its mode") from error


class IgnoreFiles:
    """The ignore files of the workspace, looked for anew every so often."""

    # Walking the tree costs milliseconds, a decision fractions of one. A file that appears is seen this
    # much later at the latest; one that is known and changes is seen at once.
    REFRESH_SECONDS = 2.0

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._names: tuple[str, ...] = ()
        self._files: dict[str, tuple[int, int] | None] = {}
        self._mapping: IgnoreMapping = {}
        self._walked = float("-inf")

    def mapping(self, names: tuple[str, ...]) -> IgnoreMapping:
        """Directory -> patterns, for the ignore files of these names."""
        stale = monotonic() - self._walked > self.REFRESH_SECONDS
        if stale or names != self._names or any(_mark(path) != mark for path, mark in self._files.items()):
            self._walk(names)
        return self._mapping

    def _walk(self, names: tuple[str, ...]) -> None:
        found = [directory for root in self._roots for directory in _ignore_files(root, frozenset(names))]
        paths = {directory: [os.path.join(directory, name) for name in names] for directory in found}
        paths |= {root: [os.path.join(root, name) for name in names] for root in self._roots}
        self._files = {path: _mark(path) for group in paths.values() for path in group}
        texts = {
            directory: [(os.path.basename(path), _read(path)) for path in group]
            for directory, group in paths.items()
        }
        mapping = mapping_of(texts)
        # The same value stays the same object, so that whoever remembers what it made of it may go on.
        self._mapping = self._mapping if mapping == self._mapping else mapping
        self._names, self._walked = names, monotonic()


def _mark(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _ignore_files(root: str, names: frozenset[str]) -> Iterator[str]:
    """The directories below `root` that have an ignore file."""
    waiting = [root]
    for directory in islice(waiting, MOST_DIRECTORIES):  # `waiting` grows as it is walked, level by level
        has_one = False
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name in names:
                        has_one = True
                    elif entry.name not in PASSED_OVER and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
        if has_one:
            yield directory
