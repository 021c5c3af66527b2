"""The socket of the user's service, and what goes over it: shared by hooks, clients of commands and the
service.

Facts: every process of the user could connect to the socket, and could make one in its place. So it lies in
Pinfold's state, which is the user's alone and which no sandbox shows, and each side asks the kernel for the
other's user. Its name holds what the service was started from: another checkout, interpreter or home has a
service of its own.

Hooks and clients load this file at each tool call: it imports nothing that is not built in.

A request is two sizes, the fields and the data. Its fields are the verb, the number of variables, the
variables, and the verb's own words. A reply is an exit code, two sizes, and two texts.
"""

import _imp
import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Reply = tuple[int, bytes, bytes]
    """An exit code, and two texts."""


SWITCH = "PINFOLD_HOOK_SERVICE"
"""`0`: no service is asked, and none is started."""
PATIENCE = 30.0
"""Seconds that a hook waits for the service before it answers by itself."""
SO_PEERCRED = 17
SEEN_BY = ("mnt", "pid", "user")
LARGEST = 1 << 27
STREAMS = 3
"""Descriptors that come with a command."""
NOT_HERE = 256
"""The exit code of what the service has not done, and will not: the other side does it by itself."""


def is_wanted(environ: "Mapping[str, str]") -> bool:
    """Not where it is switched off, nor in a sandbox.

    Nor without an absolute home: a socket in the working directory would be within a command's reach. Nor
    where XDG_STATE_HOME names another place than the usual one: a file of the project may have set it.
    """
    home, state = environ.get("HOME", ""), environ.get("XDG_STATE_HOME", "")
    is_moved = os.path.isabs(state) and os.path.normpath(state) != os.path.join(home, ".local", "state")
    is_off = environ.get(SWITCH) == "0" or environ.get("PINFOLD_PEN") or sys.platform != "linux"
    return not is_off and not is_moved and os.path.isabs(home)


def socket_path(environ: "Mapping[str, str]") -> str:
    home = environ["HOME"]
    state = os.path.join(home, ".local", "state")
    config = environ.get("XDG_CONFIG_HOME", "")
    made = f"{sys.executable} {__file__} {os.stat(__file__).st_mtime_ns} {home} {config}"
    name = _imp.source_hash(0, made.encode("utf-8", "surrogateescape")).hex()
    return os.path.join(state, "pinfold", "service", name)


def connect(path: str) -> "_socket.socket | None":
    """A connection to this user's service. Raises OSError if there is none. None if another user answers, or
    a process with other mounts, processes or users: what it sees is not what is here."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        call_with(connection.connect, path)
        pid, user = peer_of(connection)
        if user == os.getuid() and all(
            os.readlink(f"/proc/{pid}/ns/{each}") == os.readlink(f"/proc/self/ns/{each}") for each in SEEN_BY
        ):
            return connection
    except OSError:
        connection.close()
        raise
    connection.close()
    return None


def send(
    connection: "_socket.socket",
    verb: str,
    words: "Sequence[str]",
    environ: "Mapping[str, str]",
    data: bytes = b"",
    descriptors: "Sequence[int]" = (),
) -> None:
    passed = [f"{name}={value}" for name, value in environ.items()]
    fields = "\0".join([verb, str(len(passed)), *passed, *words]).encode("utf-8", "surrogateescape")
    whole = len(fields).to_bytes(4, "big") + len(data).to_bytes(4, "big") + fields + data
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    control = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
    sent = connection.sendmsg([whole], control)
    if sent < len(whole):
        connection.sendall(whole[sent:])


def receive_reply(connection: "_socket.socket") -> "Reply":
    head = exactly(connection, 12)
    code, out, err = (int.from_bytes(head[at : at + 4], "big") for at in (0, 4, 8))
    return code, exactly(connection, out), exactly(connection, err)


def send_reply(connection: "_socket.socket", code: int, out: bytes = b"", err: bytes = b"") -> None:
    sizes = b"".join(size.to_bytes(4, "big") for size in (code, len(out), len(err)))
    connection.sendall(sizes + out + err)


def exactly(connection: "_socket.socket", size: int) -> bytes:
    if size > LARGEST:
        raise ValueError(size)
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise OSError("the other side has gone")
        data += piece
    return bytes(data)


def call_with(do: "Callable[[str], object]", path: str) -> None:
    """Connects or binds to a path by a name that is short enough: the kernel takes 107 bytes."""
    if len(os.fsencode(path)) <= 100:
        do(path)
        return
    directory, name = os.path.split(path)
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        do(f"/proc/self/fd/{held}/{name}")
    finally:
        os.close(held)


def peer_of(connection: "_socket.socket") -> "tuple[int, int]":
    """The other side's process and user, when it connected."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], sys.byteorder), int.from_bytes(credentials[4:8], sys.byteorder)
