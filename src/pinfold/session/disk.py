"""What the disk says, for decisions: the live side of `model.facts.Files`."""

import os
from collections.abc import Iterator
from itertools import islice

from pinfold.model.errors import PolicyError
from pinfold.model.policy import IgnoreMapping
from pinfold.policy.ignore import Ignore, mapping_of
from pinfold.session.git import find_repository, git_helpers

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
        repository = find_repository(os.path.dirname(path))
        if repository is None or os.path.basename(repository) != ".git":
            return False
        top = os.path.dirname(repository)
        files = {top: [("exclude", _read(os.path.join(repository, "info", "exclude")))]}
        for directory in _between(top, os.path.dirname(path)):
            files.setdefault(directory, []).append((".gitignore", _read(os.path.join(directory, ".gitignore"))))
        return Ignore(mapping_of(files)).is_ignored(path)

    def git_helpers(self, directory: str) -> tuple[str, ...]:
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


def load_ignore_mapping(roots: tuple[str, ...], names: tuple[str, ...]) -> IgnoreMapping:
    """The patterns of every ignore file in the workspace, by the directory it stands in."""
    files: dict[str, list[tuple[str, str]]] = {}
    for root in roots:
        for directory, present in _ignore_files(root, frozenset(names)):
            files[directory] = [(name, _read(os.path.join(directory, name))) for name in names if name in present]
    return mapping_of(files)


def _ignore_files(root: str, names: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    waiting = [root]
    for directory in islice(waiting, MOST_DIRECTORIES):  # `waiting` grows as it is walked, level by level
        present: set[str] = set()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name in names:
                        present.add(entry.name)
                    elif entry.name not in PASSED_OVER and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
        if present:
            yield directory, frozenset(present)
