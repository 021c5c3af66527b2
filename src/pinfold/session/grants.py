"""Where the paths that settings grant lead, and which of them commands could have led elsewhere.

Facts: whoever may write a directory may put a link in it. A grant that passes such a link would be for
whatever the link names, so it is none: the place that it was meant for can be named itself.
"""

import os
import stat
from collections.abc import Iterable

from pinfold.policy.paths import is_covered

MOST_LINKS = 40


def leading(paths: Iterable[str], roots: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where each leads; and, told for a person, those that are granted no more."""
    found: dict[str, None] = {}
    lost: list[str] = []
    for path in paths:
        link = link_in(path, roots)
        if link:
            lost.append(
                f"{path} is not granted: {link} is a link that commands could change; name its target"
            )
        else:
            found[os.path.realpath(path)] = None
    return tuple(found), tuple(lost)


def link_in(path: str, roots: tuple[str, ...]) -> str:
    """The first link on a path's way that lies in one of the roots; empty if there is none."""
    left = os.path.normpath(path).split("/")[::-1]
    led, links = "", 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            led = os.path.dirname(led).rstrip("/")
            continue
        led = f"{led}/{part}"
        try:
            if not stat.S_ISLNK(os.lstat(led).st_mode):
                continue
            target = os.readlink(led)
        except OSError:
            continue  # not there, or not ours to see
        links += 1
        if is_covered(os.path.dirname(led), roots) or links > MOST_LINKS:
            return led
        led = "" if target.startswith("/") else os.path.dirname(led).rstrip("/")
        left += target.split("/")[::-1]
    return ""
