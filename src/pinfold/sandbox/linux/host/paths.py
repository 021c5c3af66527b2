"""Looks at the file system for what a plan needs to know: real paths, and what is a directory."""

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import TEMPORARY, SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.sandbox.plan import COVERED, KERNEL_WINDOWS, SHARED_MEMORY, ExistingPath, ExistingPaths


def look(
    policy: SandboxPolicy,
    roots: Sequence[str],
    protected: Iterable[str] = (),
    hidden: Iterable[str] = (),
    writable: Iterable[str] = (),
    placed: tuple[str, ...] = (),
    links: tuple[str, ...] = (),
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
