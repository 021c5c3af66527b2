"""The directory that the commands of an agent's conversation have as /tmp.

It lies in the machine's own /tmp, at the same path for commands and for the agent's file tools, so that both
see the same files. Only the user may enter the directory around it, and a sandbox shows no other part of it.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from time import time

from pinfold.model.home import scratch_top
from pinfold.state.directory import state_directory

DAY = 86_400.0
SHORT = 12
"""Characters of a conversation's digest that the name of its directory in /tmp has."""


def scratch_directory(agent: str, conversation: str, environ: Mapping[str, str]) -> str:
    """What the commands of a conversation have as /tmp, made if it is not there; empty if there can be none.

    It has the same path for each process of the user, also before the service holds the conversation.
    """
    top = scratch_top()
    path = _scratch_of(agent, conversation, environ)
    try:
        for directory, mode in ((top, 0o700), (path, 0o1777)):
            if not os.path.lexists(directory):
                os.mkdir(directory, 0o700)
                os.chmod(directory, mode)
            found = os.lstat(directory)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                return ""
            if directory == top and found.st_mode & 0o077:
                return ""
    except OSError:
        return ""
    return path


def remove_scratch(agent: str, conversation: str, environ: Mapping[str, str]) -> None:
    """Preconditions: nothing runs in the conversation's sandbox any more."""
    _remove_tree(_scratch_of(agent, conversation, environ))


def sweep_scratch(environ: Mapping[str, str]) -> None:
    """Removes what conversations have left that nobody can take up again, once it is a day old."""
    top, prefix = scratch_top(), scratch_prefix(environ)
    with suppress(OSError):
        known = {name[:SHORT] for name in _listed(conversations_directory(environ))}
        for name in os.listdir(top):
            path = os.path.join(top, name)
            is_left = name.startswith(prefix) and name.removeprefix(prefix) not in known
            if is_left and os.lstat(path).st_mtime < time() - DAY:
                _remove_tree(path)


def conversations_directory(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "conversations")


def conversation_record(agent: str, conversation: str, environ: Mapping[str, str]) -> str:
    """The file with what is kept of an agent's conversation."""
    return os.path.join(conversations_directory(environ), _digest(f"{agent}\0{conversation}")[:32])


def _listed(directory: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(directory)
    return []


def _scratch_of(agent: str, conversation: str, environ: Mapping[str, str]) -> str:
    name = _digest(f"{agent}\0{conversation}")[:SHORT]
    return os.path.join(scratch_top(), scratch_prefix(environ) + name)


def scratch_prefix(environ: Mapping[str, str]) -> str:
    """How the directories of a user with this home begin."""
    return _digest(state_directory(environ))[:6] + "-"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _remove_tree(top: str) -> None:
    """No link is followed. Directories that a command has closed are opened first."""
    with suppress(OSError):
        for directory, names, _ in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    import shutil

    shutil.rmtree(top, ignore_errors=True)
