"""Lets a command use a granted ssh agent to list keys and to sign, and for nothing else.

The warden connects the caller's socket to a listener of its own, which no command can reach. A thread per
connection passes requests to the agent one by one, and refuses all but those two kinds. A program that only
signs sees no difference, except for the process that `SO_PEERCRED` names.

INVARIANT: no byte of the caller's reaches the agent except in a message that was judged as a whole.

Facts about messages (draft-ietf-sshm-ssh-agent): a message is 32 bits of length, a byte for its kind, and the
rest. Each request has one answer, in order. OpenSSH's agent accepts up to 256 KiB. A client that gets
SSH_AGENT_FAILURE for an extension goes on without it.
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
"""How many connections a pen may have to agents; a further one gets EAGAIN."""
_PIECE = 65536
ReportRefused = Callable[[str], None]


def is_agent(path: str) -> bool:
    """Whether a socket belongs to an ssh agent, by its name or its directory's; when in doubt it does.

    Only a connection could tell for certain, and a server of another kind would notice that.
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
    """The bytes are no message of this protocol, so what follows cannot be read either."""


class AgentMessage(NamedTuple):
    kind: int
    data: bytes
    """The whole message, with its head."""

    @property
    def name(self) -> str:
        return _NAMES.get(self.kind, f"send message {self.kind}")


class AgentMessageReader:
    """Splits a stream of bytes into messages. Sans-io."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[AgentMessage]:
        """The messages that are complete by now. Raises `AgentMessageError`."""
        self._data += data
        found = []
        while len(self._data) >= 4:
            length = int.from_bytes(self._data[:4], "big")
            if not 0 < length <= LONGEST:
                raise AgentMessageError(f"a message of {length} bytes")
            if len(self._data) < 4 + length:
                break
            found.append(AgentMessage(self._data[4], self._data[: 4 + length]))
            self._data = self._data[4 + length :]
        return found


class AgentFilter:
    def __init__(self, directory: int, descriptors: int) -> None:
        """`directory`: one that no command can reach; `descriptors`: our own /proc/self/fd."""
        self.directory, self.descriptors = directory, descriptors
        self.lock = allocate_lock()
        self.holders: list[int] = []
        """The tag of the command that each connection belongs to."""
        self.listener: socket.socket | None = None
        self.name = b""

    def connect(self, caller: int, tag: int, inode: int, refused: ReportRefused) -> int | None:
        """Connects the caller's socket through this filter to the agent at an inode: 0 or an errno. None if
        the socket is no stream, which an agent's always is.

        `refused` is called with each request that was not passed on.
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

    def _join(self, caller: int, tag: int, server: socket.socket, refused: ReportRefused) -> int:
        with self.lock:
            if not has_room(self.holders, tag, MOST):
                raise BlockingIOError(errno.EAGAIN, "too many connections to agents")
            self.holders.append(tag)
        try:
            client = self._accept(caller)
        except OSError:
            self._leave(tag)
            raise
        server.setblocking(True)
        client.setblocking(True)
        try:
            start_new_thread(self._serve, (client, tag, server, refused))
        except RuntimeError:  # the user may start no further thread
            client.close()
            self._leave(tag)
            raise BlockingIOError(errno.EAGAIN, "no thread") from None
        return 0

    def _accept(self, caller: int) -> socket.socket:
        """Our side of the caller's connection. Preconditions: one call is answered at a time."""
        if self.listener is None:
            self.name = b"%d/agent-%s" % (self.directory, os.urandom(8).hex().encode())
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.listener.bind(self.name)
            self.listener.listen(1)
        error = connect(caller, unix_address(self.name))
        if error:
            raise OSError(error, "it cannot be connected")
        try:
            return self.listener.accept()[0]
        except OSError:
            # A connection that waits there must not be taken for the next caller's.
            self.listener.close()
            self.listener = None
            raise

    def _leave(self, tag: int) -> None:
        with self.lock:
            self.holders.remove(tag)

    def _serve(self, client: socket.socket, tag: int, server: socket.socket, refused: ReportRefused) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM, signal.SIGUSR1))
        try:
            with client, server, suppress(OSError, AgentMessageError):
                _pass_requests(client, server, refused)
        finally:
            self._leave(tag)


def _pass_requests(client: socket.socket, server: socket.socket, refused: ReportRefused) -> None:
    requests, answers = AgentMessageReader(), AgentMessageReader()
    while data := client.recv(_PIECE):
        try:
            found = requests.feed(data)
        except AgentMessageError:
            refused("send an invalid message")
            raise
        for request in found:
            if request.kind in PASSED:
                client.sendall(_ask_agent(server, request, answers))
            else:
                refused(request.name)
                client.sendall(FAILURE)


def _ask_agent(server: socket.socket, request: AgentMessage, answers: AgentMessageReader) -> bytes:
    server.sendall(request.data)
    while data := server.recv(_PIECE):
        for answer in answers.feed(data):
            return answer.data
    raise ConnectionResetError(errno.ECONNRESET, "the agent has ended")
