"""What the disk says, for decisions: the live side of `model.facts.Files`.

Imports that only a line outside the sandbox needs are made when it needs them; inside is the usual case.
"""

import os
from collections.abc import Iterator, Mapping

from pinfold.model.symlinks import real_path, walk_path
from pinfold.settings.files import read_text

MOST_MATCHES = 1_000
MOST_DIRECTORIES = 20_000
"""That are looked through for links, of those that they lead to as well."""
MOST_PARTS = 128
"""Of a pattern: each of them is looked for from the first one on."""


class Disk:
    """The file system as it is now, for one decision about a request with these variables."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
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

        from pinfold.workspace.globs import literals, ways, widened

        self.was_searched = True
        if pattern.count("/") > MOST_PARTS:
            return None
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
        from pinfold.policy.operand_paths import is_own_process

        if ".." not in path and self.real(path) == os.path.normpath(path):
            return is_own_process(path)  # there is no link on the way
        self.was_searched = True
        return any(is_own_process(step.place) for step in walk_path(path))

    def links_below(self, directory: str) -> tuple[str, ...] | None:
        self.was_searched = True
        waiting, seen, found = [directory], {directory}, dict[str, None]()
        for place in waiting:  # which grows meanwhile
            if len(waiting) > MOST_DIRECTORIES:
                return None
            below, links = _directories_and_links(place)
            ends = [*map(self.real, links)]
            found.update(dict.fromkeys(ends))
            # What lies in a directory of theirs is looked at as well: links may lead on from there.
            further = [each for each in (*below, *filter(os.path.isdir, ends)) if each not in seen]
            seen.update(further)
            waiting += dict.fromkeys(further)
        return tuple(found)

    def is_directory(self, path: str) -> bool:
        self.was_searched = True
        return os.path.isdir(path)

    def is_there(self, path: str) -> bool:
        self.was_searched = True
        return os.path.lexists(path)

    def is_git_ignored(self, path: str) -> bool:
        from pinfold.policy.ignore import MOST_PATTERNS, Ignore, mapping_of
        from pinfold.workspace.repository import find_repository

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
        mapping = mapping_of(files)
        # Of too many patterns one may well say so: a doubt is asked about.
        is_known = sum(map(len, mapping.values())) <= MOST_PATTERNS
        return not is_known or Ignore(mapping).is_ignored(path)

    def git_helpers(self, directory: str) -> tuple[str, ...]:
        from pinfold.workspace.git_programs import git_helpers

        self.was_searched = True
        return git_helpers(directory, self._environ)


def _directories_and_links(directory: str) -> tuple[list[str], list[str]]:
    try:
        with os.scandir(directory) as entries:
            inside = [*entries]
    except OSError:
        return [], []
    below = [entry.path for entry in inside if entry.is_dir(follow_symlinks=False)]
    return below, [entry.path for entry in inside if entry.is_symlink()]


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
