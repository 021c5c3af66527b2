"""Walks a path as the kernel does: every place on the way, following the symbolic links of the moment.

Facts (path_resolution(7)): `..` is the parent of where the links before it led; the kernel walks a link's
target from the directory that the link is in; a path over more than forty links leads nowhere.

Another process may swap a link meanwhile. The caller has to deal with that.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from pinfold.model.errors import PolicyError

MOST_LINKS = 40
PATH_MAX = 4096
"""Bytes of a path that the kernel takes in one call, with the zero at its end."""
LONGEST_PATH = 2 * PATH_MAX
"""Bytes: of one that a call takes, and of the directory that it starts in."""
TRIES = 3
REMOVED = " (deleted)"
"""What the kernel appends to the path of a file that was removed."""


class Step(NamedTuple):
    place: str
    """An absolute path, with no link in it but at its end."""
    is_link: bool
    is_last: bool
    """Whether nothing of the path is left after it."""


def walk_path(path: str, most_links: int = MOST_LINKS) -> Iterator[Step]:
    """Every place that resolving an absolute path comes through, from the root on.

    A name that does not exist is no link. The last place is where the path leads: it is a link only where
    there are more than `most_links`.
    """
    left, led = path.split("/")[::-1], "/"
    links = 0
    yield Step(led, False, not any(left))
    while left and links <= most_links:
        part = left.pop()
        if part in ("", "."):
            continue
        place = os.path.dirname(led) if part == ".." else os.path.join(led, part)
        target = None if part == ".." else _target_of(place)
        yield Step(place, target is not None, not any(left))
        if target is None:
            led = place
        else:
            links += 1
            led = "/" if target.startswith("/") else led
            left += target.split("/")[::-1]


def links_and_target(path: str) -> tuple[str, ...]:
    """The links that a path goes through, and its target: changing one of these links changes the target."""
    return tuple(step.place for step in walk_path(path) if step.is_link or step.is_last)


def real_path(path: str) -> str:
    """`os.path.realpath` for any text: a path that no system call would take is only normalized."""
    try:
        if len(os.fsencode(path)) > LONGEST_PATH:
            return os.path.normpath(path)
        return _walked_by_kernel(path) or os.path.realpath(path)
    except (OSError, ValueError, RecursionError):  # a chain of links longer than Python's stack
        return os.path.normpath(path)


def real_directory(path: str) -> str:
    """Where a directory really lies, by the kernel alone, which gives up after forty links; empty if it is
    none."""
    # While other processes rename things, the kernel may count the same links twice.
    return next(filter(None, (_walked_by_kernel(path, os.O_DIRECTORY) for _ in range(TRIES))), "")


def project_directory(path: str | os.PathLike[str]) -> str:
    """Where a directory that is to be worked in really lies."""
    if (size := len(os.fsencode(path))) >= PATH_MAX:
        start = f"{os.fspath(path)[:40]}..."
        raise PolicyError(
            f"the path has {size:,} bytes, and the system takes at most {PATH_MAX - 1:,}", where=start
        )
    if not os.path.isdir(path):
        raise PolicyError(
            "is not a directory", where=os.fspath(path) or "an empty path", help="give one that exists"
        )
    return real_path(os.fspath(path))


def _walked_by_kernel(path: str, flags: int = 0) -> str:
    """The real path of an existing file, in three calls instead of one for each part of its path; empty where
    the kernel knows no path of it."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    except OSError:
        return ""
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return found if found.startswith("/") and not found.endswith(REMOVED) else ""


def _target_of(place: str) -> str | None:
    try:
        return os.readlink(place)
    except (OSError, ValueError):  # no link, nothing there, or no path that a system call would take
        return None
