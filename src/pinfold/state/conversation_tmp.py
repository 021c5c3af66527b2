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
KEPT = 30 * DAY
"""Seconds for which a conversation can be resumed after it was last opened."""
LIKE_TMP = 0o1777
SHORT = 12
"""Characters of a conversation's digest that the name of its directory in /tmp has."""


def scratch_directory(agent: str, conversation: str, environ: Mapping[str, str]) -> str:
    """What the commands of a conversation have as /tmp, made if it is not there; empty if there can be none.

    It has the same path for each process of the user, also before the service holds the conversation.
    """
    top = scratch_top()
    path = _scratch_of(agent, conversation, environ)
    with suppress(OSError):
        if not os.path.lexists(top):
            os.mkdir(top, 0o700)
        if not _is_own(top):
            return ""
        if not os.path.lexists(path):
            os.mkdir(path)
            os.chmod(path, LIKE_TMP)
        return path if _is_directory(path) else ""
    return ""


def remove_scratch(agent: str, conversation: str, environ: Mapping[str, str]) -> None:
    """Preconditions: nothing runs in the conversation's sandbox any more."""
    if _is_own(scratch_top()):
        _remove_tree(_scratch_of(agent, conversation, environ))


def sweep_scratch(environ: Mapping[str, str]) -> None:
    """Removes what conversations have left that cannot be resumed, once it is a day old."""
    top, prefix = scratch_top(), scratch_prefix(environ)
    if not _is_own(top):
        return
    with suppress(OSError):
        known = {name[:SHORT] for name in _listed(conversations_directory(environ))}
        for name in os.listdir(top):
            path = os.path.join(top, name)
            is_left = name.startswith(prefix) and name.removeprefix(prefix) not in known
            if is_left and _changed(path) < time() - DAY:
                _remove_tree(path)


def forget_old_conversations(environ: Mapping[str, str]) -> None:
    """Removes records of conversations that were last opened too long ago, and whose /tmp is as old."""
    records, before = conversations_directory(environ), time() - KEPT
    for name in _listed(records):
        record = os.path.join(records, name)
        scratch = os.path.join(scratch_top(), scratch_prefix(environ) + name[:SHORT])
        if max(_changed(record), _changed(scratch)) < before:
            with suppress(OSError):
                os.unlink(record)


def conversations_directory(environ: Mapping[str, str]) -> str:
    return os.path.join(state_directory(environ), "conversations")


def conversation_record(agent: str, conversation: str, environ: Mapping[str, str]) -> str:
    """The file with what is kept of an agent's conversation."""
    return os.path.join(conversations_directory(environ), _digest(f"{agent}\0{conversation}")[:32])


def _listed(directory: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(directory)
    return []


def _is_own(top: str) -> bool:
    """Whether only the user can have made what is in it: any other user may make a name in /tmp."""
    with suppress(OSError):
        return _is_directory(top) and not os.lstat(top).st_mode & 0o077
    return False


def _is_directory(path: str) -> bool:
    """Whether it is the user's own directory, and no link to one."""
    with suppress(OSError):
        found = os.lstat(path)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _changed(path: str) -> float:
    """When it last changed; 0 if it is not there."""
    with suppress(OSError):
        return os.lstat(path).st_mtime
    return 0.0


def _scratch_of(agent: str, conversation: str, environ: Mapping[str, str]) -> str:
    name = _digest(f"{agent}\0{conversation}")[:SHORT]
    return os.path.join(scratch_top(), scratch_prefix(environ) + name)


def scratch_prefix(environ: Mapping[str, str]) -> str:
    """How the directories of a user with this home begin."""
    return _digest(state_directory(environ))[:6] + "-"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _remove_tree(top: str) -> None:
    """No link is followed. Directories that a command has closed are opened first.

    Preconditions: no other user can enter the directory around it (`_is_own`).
    """
    if not _is_directory(top):
        return
    with suppress(OSError):
        for directory, names, _ in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    import shutil

    shutil.rmtree(top, ignore_errors=True)
