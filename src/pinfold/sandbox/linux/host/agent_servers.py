"""Which granted sockets an ssh agent serves: found by the programs that hold them, not by their names.

No connection is made, since some servers take a single one. Accepted: an agent that neither a name nor its
own command line tells of is not filtered.

Facts:
- `/proc/net/unix` has the path that a socket was bound by. Of a relative one the last part counts.
- Agents keep others from looking at their memory (PR_SET_DUMPABLE), and so their descriptors are not to be
  seen by their own user. What the user's other programs hold is seen; of what is left, an agent may be the
  server, and in doubt it is.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

PROC = "/proc"
AGENTS = re.compile(
    rb"ssh-?agent|gpg-agent|keyring|keepass|1password|bitwarden|secretive|pageant|yubikey-agent|tpm-agent"
    rb"|goldwarden|(^|/)sshd|SSH_AUTH_SOCK",
    re.IGNORECASE,
)
_PATH, _INODE = 7, 6
_known: dict[tuple[int, int, int], bool] = {}
"""By device, inode and last change: a server that starts anew makes a new socket."""


class _Holders(NamedTuple):
    """The processes that hold sockets, as far as they can be seen."""

    by_agents: frozenset[str]
    by_any: frozenset[str]
    unseen: frozenset[int]
    """The users of agents whose descriptors cannot be seen."""


def agents_among(paths: Iterable[str]) -> tuple[str, ...]:
    """Those of these sockets that an ssh agent has."""
    there: dict[str, os.stat_result] = {}
    for path in paths:
        with suppress(OSError):
            there[path] = os.stat(path)
    if any(_identity(status) not in _known for status in there.values()):
        holders, inodes = _look(), _inodes_by_path()
        for path, status in there.items():
            of_path = inodes.get(path, frozenset()) | inodes.get(os.path.basename(path), frozenset())
            may_be = status.st_uid in holders.unseen and holders.by_any.isdisjoint(of_path)
            _known[_identity(status)] = may_be or not holders.by_agents.isdisjoint(of_path)
    return tuple(path for path, status in there.items() if _known[_identity(status)])


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _inodes_by_path() -> dict[str, frozenset[str]]:
    """The sockets that are bound to paths."""
    found: dict[str, frozenset[str]] = {}
    with suppress(OSError), open(f"{PROC}/net/unix", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=_PATH)
            if len(fields) > _PATH:
                path = fields[_PATH]
                name = path if path.startswith("/") else os.path.basename(path)
                found[name] = found.get(name, frozenset()) | {fields[_INODE]}
    return found


def _look() -> _Holders:
    agents: set[str] = set()
    others: set[str] = set()
    unseen: set[int] = set()
    for number in os.listdir(PROC):
        if not number.isdigit():
            continue
        process = f"{PROC}/{number}"
        with suppress(OSError):
            is_agent = AGENTS.search(_read(f"{process}/cmdline")) is not None
            try:
                (agents if is_agent else others).update(_sockets(process))
            except PermissionError:
                if is_agent:
                    unseen.add(_user(process))
    return _Holders(frozenset(agents), frozenset(agents | others), frozenset(unseen))


def _read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(4096)


def _user(process: str) -> int:
    """The process's own, which is not the owner of its directory here."""
    _, _, users = _read(f"{process}/status").partition(b"\nUid:")
    return int(users.split()[0])


def _sockets(process: str) -> Iterator[str]:
    for descriptor in os.listdir(f"{process}/fd"):
        with suppress(FileNotFoundError):
            kind, _, inode = os.readlink(f"{process}/fd/{descriptor}").partition(":")
            if kind == "socket":
                yield inode.strip("[]")
