"""The user's home, as programs find it that are run with some variables, and paths that start there."""

import os
from collections.abc import Mapping


def home_of(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def expanded(path: str, home: str) -> str:
    """A path with its `~` resolved; `~user` is the home of that user."""
    return os.path.join(home, path[2:]) if path == "~" or path.startswith("~/") else os.path.expanduser(path)
