"""A granted ssh agent lists keys and signs with them for a command, and nothing else.

The caller's socket is connected to a listener of ours, which no command can reach, and each connection has a
thread, which hands requests on to the agent one by one, and refuses all but those two. A program that only
signs sees no difference, but for whom `SO_PEERCRED` names.

INVARIANT: no byte of the caller's reaches the agent but in a message that was judged whole.

What a client says to an ssh agent, message by message, and what of it passes. Sans-io.

Facts (draft-ietf-sshm-ssh-agent): a message is 32 bits of length, a byte that says its kind, and the rest;
every request has one answer, in its turn. OpenSSH's agent takes up to 256 KiB. A client that hears
SSH_AGENT_FAILURE of an extension goes on without it.
"""

import errno
import os
import signal
import socket
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pinfold.kernel.sockets import connect, is_stream
from pinfold.model.fair_share import has_room
from pinfold.sandbox.linux.warden.socket_address import unix_address

MOST = 32
"""How many connections a pen may have to agents; who comes then hears EAGAIN."""
_PIECE = 65536
Refused = Callable[[str], None]


def is_agent(path: str) -> bool:
    """Whether a socket is one of an ssh agent, by its name or its directory's: in doubt it is.

    Nothing else tells without a connection to it, which a server of another kind would see.
    """
    directory, _, name = path.lower().rpartition("/")
    return "agent" in name or any("ssh" in part for part in (name, directory.rpartition("/")[2]))


LONGEST = 256 << 10
FAILURE = b"\0\0\0\1\5"
_LIST, _SIGN = 11, 13
PASSED = frozenset((_LIST, _SIGN))
_NAMES = {
    1: "list old keys", 3: "answer a challenge", 7: "add an old key", 8: "remove an old key",
    9: "remove all old keys", 17: "add a key", 18: "remove a key", 19: "remove all keys",
    20: "add a smartcard", 21: "remove a smartcard", 22: "lock", 23: "unlock", 24: "add an old key",
    25: "add a key", 26: "add a smartcard", 27: "use an extension",
}  # fmt: skip


class AgentMessageError(ValueError):
    """Bytes that are no message of this protocol; nothing can be known of what follows."""


class Message(NamedTuple):
    kind: int
    data: bytes
    """The whole of it, as it came."""

    @property
    def name(self) -> str:
        return _NAMES.get(self.kind, f"send message {self.kind}")


class Messages:
    """Takes bytes as they come."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[Message]:
        """Those that are whole by now. Raises `AgentMessageError`."""
        self._data += data
        found = []
        while len(self._data) >= 4:
            length = int.from_bytes(self._data[:4], "big")
            if not 0 < length <= LONGEST:
                raise AgentMessageError(f"a message of {length} bytes")
            if len(self._data) < 4 + length:
                break
            found.append(Message(self._data[4], self._data[: 4 + length]))
            self._data = self._data[4 + length :]
        return found


class AgentFilter:
    def __init__(self, room: int, descriptors: int) -> None:
        """`room` is a directory that no command can reach; `descriptors`, our own /proc/self/fd."""
        self.room, self.descriptors = room, descriptors
        self.lock = allocate_lock()
        self.holders: list[int] = []
        """The command that each connection is of."""
        self.listener: socket.socket | None = None
        self.name = b""

    def lead(self, caller: int, tag: int, inode: int, refused: Refused) -> int | None:
        """Connects the caller's socket to the agent at an inode, by way of us: an errno; None if it is no
        stream, which no agent has.

        `refused` is told what was asked for and not passed on.
        """
        if not is_stream(caller):
            return None
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        os.fchdir(self.descriptors)
        error = connect(server.fileno(), unix_address(b"%d" % inode))
        if error:
            server.close()
            return error
        try:
            return self._join(caller, tag, server, refused)
        except OSError as failed:
            server.close()
            return failed.errno or errno.ECONNREFUSED

    def _join(self, caller: int, tag: int, server: socket.socket, refused: Refused) -> int:
        with self.lock:
            if not has_room(self.holders, tag, MOST):
                raise BlockingIOError(errno.EAGAIN, "too many connections to agents")
            self.holders.append(tag)
        try:
            client = self._meet(caller)
        except OSError:
            self._leave(tag)
            raise
        server.setblocking(True)
        client.setblocking(True)
        try:
            start_new_thread(self._serve, (client, tag, server, refused))
        except RuntimeError:  # the user's processes are all used up
            client.close()
            self._leave(tag)
            raise BlockingIOError(errno.EAGAIN, "no thread") from None
        return 0

    def _meet(self, caller: int) -> socket.socket:
        """Our side of the caller's connection. Preconditions: one call is answered at a time."""
        if self.listener is None:
            self.name = b"%d/agent-%s" % (self.room, os.urandom(8).hex().encode())
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.listener.bind(self.name)
            self.listener.listen(1)
        error = connect(caller, unix_address(self.name))
        if error:
            raise OSError(error, "it cannot be connected")
        try:
            return self.listener.accept()[0]
        except OSError:
            # A connection that waits there now must not count as the next one.
            self.listener.close()
            self.listener = None
            raise

    def _leave(self, tag: int) -> None:
        with self.lock:
            self.holders.remove(tag)

    def _serve(self, client: socket.socket, tag: int, server: socket.socket, refused: Refused) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM, signal.SIGUSR1))
        try:
            with client, server, suppress(OSError, AgentMessageError):
                _pass_requests(client, server, refused)
        finally:
            self._leave(tag)


def _pass_requests(client: socket.socket, server: socket.socket, refused: Refused) -> None:
    requests, answers = Messages(), Messages()
    while data := client.recv(_PIECE):
        try:
            found = requests.feed(data)
        except AgentMessageError:
            refused("send what is no message")
            raise
        for request in found:
            if request.kind in PASSED:
                client.sendall(_asked(server, request, answers))
            else:
                refused(request.name)
                client.sendall(FAILURE)


def _asked(server: socket.socket, request: Message, answers: Messages) -> bytes:
    server.sendall(request.data)
    while data := server.recv(_PIECE):
        for answer in answers.feed(data):
            return answer.data
    raise ConnectionResetError(errno.ECONNRESET, "the agent has ended")
