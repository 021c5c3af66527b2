"""The way along a path: every place that the kernel comes through, as the links of now lead.

Facts (path_resolution(7)): `..` is the parent of where the links before it led; a link's target is walked
from the directory that the link is in; a way over more than forty links leads nowhere.

Anybody may swap a link meanwhile. What is done about that is the asker's.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

MOST_LINKS = 40
PATH_MAX = 4096
"""Bytes of a path that the kernel takes in one call, with the zero at its end."""


class Step(NamedTuple):
    place: str
    """An absolute path, with no link in it but at its end."""
    is_link: bool
    is_last: bool
    """Whether nothing of the path is left after it."""


def way_of(path: str) -> Iterator[Step]:
    """Every place on the way along an absolute path, from the root on; what is not there is no link.

    The last one is where it leads: a link only where there are too many to follow.
    """
    left, led = path.split("/")[::-1], "/"
    links = 0
    yield Step(led, False, not any(left))
    while left and links <= MOST_LINKS:
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


def real_path(path: str) -> str:
    """As `os.path.realpath`, which fails at a chain of links that is longer than Python's stack: commands can
    make one wherever they write. The kernel follows no such chain, and so it leads nowhere but to itself."""
    try:
        return os.path.realpath(path)
    except RecursionError:
        return os.path.normpath(path)


def _target_of(place: str) -> str | None:
    try:
        return os.readlink(place)
    except (OSError, ValueError):  # no link, nothing there, or no path that a system call would take
        return None
