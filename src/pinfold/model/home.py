"""The user's home, as programs find it that are run with some variables, and paths that start there.

INVARIANT: a home is an absolute path. One that began at the working directory would be the commands' own, and
with it the user's settings and all that pinfold keeps.
"""

import os
from collections.abc import Mapping

NOWHERE = "/nonexistent"
"""The home of who has none, as Debian calls it: nothing is found there, and nothing can be written."""


def home_of(environ: Mapping[str, str]) -> str:
    """What `HOME` says, or the account; a relative `HOME` counts for nothing."""
    for told in (environ.get("HOME", ""), os.environ.get("HOME", "")):
        if os.path.isabs(told):
            return told
    return _of_account()


def _of_account() -> str:
    try:
        from pwd import getpwuid

        told = getpwuid(os.getuid()).pw_dir
    except ImportError:
        told = os.path.expanduser("~")
    except KeyError:  # as in a container that was started for a number
        return NOWHERE
    return told if os.path.isabs(told) else NOWHERE


def expanded(path: str, home: str) -> str:
    """A path with its `~` resolved; `~user` is the home of that user."""
    return os.path.join(home, path[2:]) if path == "~" or path.startswith("~/") else os.path.expanduser(path)
