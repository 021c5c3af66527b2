"""Which pens the user has on this machine, of any session, and which are being built.

Facts that shape it (unix(7), proc(5); tried on 6.18):
- Binding a socket takes an abstract name. The name is listed while the socket is open, and goes with its
  holder, however that ends. So the list of names is the list of live pens.
- A socket stays in the network namespace that it was made in, wherever it is used, and so does a list that
  was opened there. Ours belong to the host's namespace, which no program of a session sees.
- A pen's plan may miss what a command makes while the pen is built, and the pen has no warden to tell yet. So
  the pen has a builder's name from before its host scans the workspace until its warden has a name of its
  own.
- A pen of another project need not be told of what is made in this one, and may be slow or stopped; to scan
  a large workspace may take half a minute. So a name ends in short marks of the directories below which the
  pen may write. If two directories have the same mark by chance, a warden gets a request in vain. If a name
  has no room for all marks, the warden gets every request.

Accepted: another user's program may take such a name, and never answer a warden that waits for it.
"""

import _socket
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

WARDEN, BUILDER = b"warden", b"builder"
ANYWHERE = b"*"
"""In place of marks: wardens tell this pen of every file."""
LONGEST_NAME = 107
MARK = b"%04x"


def mark_of(directory: os.stat_result) -> bytes:
    """A directory has the same mark at each of its paths, in every mount namespace."""
    return MARK % ((directory.st_dev * 31 + directory.st_ino) % 65521)


def marks_of(paths: Iterable[str]) -> list[bytes]:
    """The mark of each directory. For one that does not exist: that of the nearest directory above it."""
    marks = []
    for path in map(os.path.abspath, paths):
        while not os.path.exists(path) and path != "/":
            path = os.path.dirname(path)
        marks.append(mark_of(os.stat(path)))
    return marks


def _prefix(kind: bytes) -> bytes:
    return b"@pinfold/%d/%s/" % (os.geteuid(), kind)


def fresh_socket() -> _socket.socket:
    """A socket of this process's network namespace."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)


def take_name(socket: _socket.socket, kind: bytes, marks: Iterable[bytes] = (ANYWHERE,)) -> bytes:
    """Binds the socket to a new name, by which others find it from now on; returns the name."""
    name = _prefix(kind) + os.urandom(8).hex().encode() + b"/"
    each = {*marks}
    ending = b"".join(sorted(each))
    name += ANYWHERE if ANYWHERE in each or len(name + ending) > LONGEST_NAME else ending
    socket.bind(b"\0" + name[1:])
    return name


def may_write_below(name: bytes, marks: Collection[bytes]) -> bool:
    """Whether the pen of that name may write in one of the directories that have these marks."""
    ending = name.rpartition(b"/")[2]
    size = len(MARK % 0)
    return ending == ANYWHERE or any(
        ending[start : start + size] in marks for start in range(0, len(ending), size)
    )


def list_of_names() -> int:
    """The list of names of this process's network namespace, to be read repeatedly."""
    return os.open("/proc/net/unix", os.O_RDONLY | os.O_CLOEXEC)


def present(names: int, kind: bytes) -> set[bytes]:
    """The names of one kind that are in the list now."""
    os.lseek(names, 0, os.SEEK_SET)
    with open(names, "rb", closefd=False) as file:
        words = file.read().split()
    prefix = _prefix(kind)
    return {word for word in words if word.startswith(prefix)}


def marks_above(path: str, top: str = "/") -> list[bytes]:
    """Marks of the directories that a path lies in, the innermost first, up to the top."""
    marks = []
    while path != top:
        path = os.path.dirname(path)
        marks.append(mark_of(os.stat(path)))
    return marks


@contextmanager
def building(writable: Iterable[str]) -> Iterator[None]:
    """Shows other wardens that a pen is being built: they wait for its warden.

    Preconditions: the host has not yet looked at what the pen is built from.

    `writable`: the paths below which it may write, by its policy.
    """
    socket = fresh_socket()
    try:
        take_name(socket, BUILDER, marks_of(writable))
        yield
    finally:
        socket.close()
