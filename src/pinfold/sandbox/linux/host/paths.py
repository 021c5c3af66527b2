"""Looks at the file system for what a plan needs to know: real paths, and what is a directory."""

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.partly_hidden import WILD, PartlyHidden, fits, partly_hidden
from pinfold.model.policy import TEMPORARY, SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.sandbox.plan import (
    COVERED,
    KERNEL_WINDOWS,
    SHARED_MEMORY,
    ExistingPath,
    ExistingPaths,
    ShownPath,
)

MOST_LOOKED = 500
"""Directories that are looked at again before each command: each takes a microsecond."""


def look(
    policy: SandboxPolicy,
    roots: Sequence[str],
    protected: Iterable[str] = (),
    hidden: Iterable[str] = (),
    writable: Iterable[str] = (),
    placed: tuple[str, ...] = (),
    links: tuple[str, ...] = (),
    shown: tuple[ShownPath, ...] = (),
) -> ExistingPaths:
    """What is there of a policy's paths. A missing root is an error, a missing grant is none.

    Preconditions: the policy's paths were resolved when they were judged. One that leads elsewhere by now is
    no grant: a command may have put a link there.
    """
    return ExistingPaths(
        roots=tuple(_root(path) for path in roots),
        writable=_found(_straight((*policy.additional_readwrite_paths, *writable))),
        readable=_found(_straight(policy.additional_readonly_paths)),
        sockets=_found(policy.unix_sockets),
        protected=_found(protected),
        hidden=_found(hidden),
        shown=shown,
        placed=placed,
        links=links,
        machine=tuple(
            path
            for path in (*TEMPORARY, *COVERED, *KERNEL_WINDOWS)
            if os.path.isdir(path) and real_path(path) == path
        ),
    )


def open_own(places: ExistingPaths, home: str) -> ExistingPaths:
    """What root's commands may read although the machine's tree is closed to them: what is granted, the home,
    and the Python that pinfold runs by."""
    replaced = (*COVERED, *TEMPORARY, SHARED_MEMORY)
    writable = [place.path for place in (*places.roots, *places.writable)]
    own = _found(path for path in (home, sys.prefix, sys.base_prefix) if path)
    own = tuple(place for place in own if not _lies_in(place.path, (*replaced, *writable)))
    places = replace(places, readable=(*places.readable, *own))
    opened = {*writable, *(place.path for place in (*places.readable, *places.sockets))}
    above = {_closed_above(path, opened) for path in opened if not _lies_in(path, replaced)}
    return replace(places, is_closed=True, closed=tuple(sorted(filter(None, above))))


def _lies_in(path: str, directories: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{directory}/") for directory in directories)


def _closed_above(path: str, opened: Collection[str]) -> str:
    """The topmost directory above it that only root may search; nothing if it lies in what is open."""
    found = ""
    while (path := os.path.dirname(path)) != "/":
        if path in opened:
            return ""
        status = os.stat(path, follow_symlinks=False)
        if status.st_uid == 0 and not status.st_mode & stat.S_IXOTH:
            found = path
    return found


def _root(path: str) -> ExistingPath:
    if not os.path.isabs(path):
        raise ConfinementError(f"the root {path!r} is not an absolute path")
    place = place_of(path)
    if place is None:
        raise ConfinementError(f"the root {path!r} does not exist, or cannot be reached")
    if place.path != os.path.normpath(path):
        raise ConfinementError(
            f"the root {path!r} is a link by now, to {place.path}; name the directory itself"
        )
    return place


class ShownPaths(NamedTuple):
    """What there is to be seen in directories that are hidden otherwise."""

    found: tuple[ShownPath, ...]
    looked: tuple[tuple[str, int], ...]
    """The directories that were looked into for it, and when each was changed last."""

    def may_have_changed(self) -> bool:
        return any(_changed(directory) != then for directory, then in self.looked)


def shown_in(policy: SandboxPolicy, hidden: Collection[str]) -> ShownPaths:
    """What a policy shows in directories that it hides otherwise; of two entries for one, what both show."""
    partly = [each for entry in policy.hidden if (each := partly_hidden(entry))]
    looked: dict[str, int] = {}
    found: dict[str, ShownPath] = {}
    for directory in dict.fromkeys(each.directory for each in partly if each.directory in hidden):
        entries = [each for each in partly if each.directory == directory]
        if directory not in policy.hidden:
            found |= {each.path: each for each in _shown_of(entries, looked) if each.path not in hidden}
    outer = (each for each in found.values() if not _lies_in(os.path.dirname(each.path), found))
    return ShownPaths(tuple(outer), tuple(looked.items())[:MOST_LOOKED])


def _shown_of(entries: Sequence[PartlyHidden], looked: dict[str, int]) -> Iterator[ShownPath]:
    directory = entries[0].directory
    for pattern in entries[0].shown:
        for path in _matches(directory, pattern, looked):
            if not all(each.shows(path) for each in entries[1:]):
                continue
            with suppress(OSError):
                mode = os.lstat(path).st_mode
                target = os.readlink(path) if stat.S_ISLNK(mode) else ""
                yield ShownPath(directory, path, "directory" if stat.S_ISDIR(mode) else "file", target)


def _matches(directory: str, pattern: Sequence[str], looked: dict[str, int]) -> Iterator[str]:
    """The paths below a directory that a pattern matches, none of them beyond a link."""
    looked.setdefault(directory, _changed(directory))
    first, *rest = pattern
    try:
        names = os.listdir(directory) if any(c in first for c in WILD) else [first]
    except OSError:
        return
    for name in names:
        path = f"{directory}/{name}"
        if not fits(name, first):
            continue
        if not rest and os.path.lexists(path):
            yield path
        elif rest and os.path.isdir(path) and not os.path.islink(path):
            yield from _matches(path, rest, looked)


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


def _found(paths: Iterable[str]) -> tuple[ExistingPath, ...]:
    return tuple({place: None for path in paths if (place := place_of(path))})


def _straight(paths: Iterable[str]) -> Iterator[str]:
    return (path for path in paths if real_path(path) == os.path.normpath(path))


def place_of(path: str) -> ExistingPath | None:
    """Where a path leads once every link is followed; None if that is nowhere."""
    real = real_path(path)
    try:
        mode = os.lstat(real).st_mode
    except PermissionError:
        # A command may have closed the directory above, to open it again once its contents are not hidden.
        # The pen's builder can look past that, and sees by itself which kind of file it is.
        return ExistingPath(real, "directory")
    except OSError:
        return None
    return None if stat.S_ISLNK(mode) else ExistingPath(real, "directory" if stat.S_ISDIR(mode) else "file")
