"""The user's home, as programs with given environment variables find it, and paths that start there.

INVARIANT: a home is an absolute path. A relative one would begin at the working directory: commands could
then write the user's settings and everything that Pinfold keeps.
"""

import os
from collections.abc import Mapping

NOWHERE = "/nonexistent"
"""Debian's name for the home of an account without one: it holds no files, and none can be written."""


def home_of(environ: Mapping[str, str]) -> str:
    """The value of `HOME`, or the account's home; a relative `HOME` is ignored."""
    for told in (environ.get("HOME", ""), os.environ.get("HOME", "")):
        if os.path.isabs(told):
            return told
    return _of_account()


def scratch_top() -> str:
    """The directory with what agents' conversations have as /tmp: their commands write all below it."""
    return f"/tmp/pinfold-{os.geteuid()}"  # noqa: S108


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
