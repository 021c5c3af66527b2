"""Waits for clients on a unix socket.

Facts that shape it (unix(7)):
- No client can connect before `listen`: the socket's mode is set between it and `bind`.
- A path has at most 107 bytes.

A client must be the same user, and must prove to know the token (`proof`): a program in a pen is the same
user too, and cannot read the token, since it lies in the state directory, which every pen hides.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Thread
from time import sleep

from pinfold.kernel.socket_info import user_of
from pinfold.model.errors import PinfoldError
from pinfold.service.connection import Connection
from pinfold.service.lines import LineStream
from pinfold.service.messages import BUSY, NOT_YOU, Fault, fault_line
from pinfold.service.methods import Service
from pinfold.service.socket_trust import require_private_directory
from pinfold.state.directory import state_directory, write_private

MOST_CLIENTS = 128
LONGEST_PATH = 107
FOR_GOOD = (errno.EBADF, errno.EINVAL)
"""How a socket that was closed refuses to accept."""
SOON = 0.05


def token_file(path: str, environ: Mapping[str, str]) -> str:
    """Where the token of the service at a socket lies."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    return os.path.join(state_directory(environ), "service", f"{name}.token")


class ServiceListener:
    def __init__(self, path: str, service: Service, environ: Mapping[str, str]) -> None:
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise PinfoldError(f"{path}: the path of a socket has at most {LONGEST_PATH} bytes")
        self.path, self.service = os.path.abspath(path), service
        require_private_directory(self.path, environ)
        self.token_file = token_file(self.path, environ)
        self._room = BoundedSemaphore(MOST_CLIENTS)
        self._connections: set[Connection] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._alone():
                self._bind()
                service.token = secrets.token_urlsafe(32)
                write_private(self.token_file, service.token.encode())
                self._socket.listen(MOST_CLIENTS)
                service.socket = self.path
        except PinfoldError:
            self._socket.close()
            raise
        except OSError as error:
            self._socket.close()
            raise PinfoldError(f"{self.path}: {error.strerror or error}") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Of several that begin at once, one at a time: until it listens, a socket looks dead to others."""
        directory = os.path.dirname(self.token_file)
        os.makedirs(directory, 0o700, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # so that no file of it stays
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _bind(self) -> None:
        if os.path.lexists(self.path):
            self._remove_dead()
        self._socket.bind(self.path)
        self._inode = os.stat(self.path).st_ino
        os.chmod(self.path, 0o600)

    def _remove_dead(self) -> None:
        """Removes a socket that no process listens on any more; anything else stays."""
        # A file that is no socket refuses a connection too.
        if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
            raise PinfoldError(f"{self.path}: something else than a socket is there")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as other:
            try:
                other.connect(self.path)
            except ConnectionRefusedError:
                os.unlink(self.path)
                return
            except BlockingIOError:
                pass  # more wait there than it has room for
        raise PinfoldError(f"{self.path}: a service listens there already")

    def serve(self) -> None:
        """Until `close`."""
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError as error:
                if error.errno in FOR_GOOD:
                    return
                sleep(SOON)  # no descriptor is free at the moment; one may be soon
                continue
            try:
                Thread(target=self._attend, args=(client,), name="pinfold-client", daemon=True).start()
            except RuntimeError:  # nor is a thread
                client.close()

    def _attend(self, client: socket.socket) -> None:
        with client:
            lines = LineStream(client.fileno(), client.fileno(), client)
            if user_of(client) != os.geteuid():
                lines.write(fault_line(None, Fault(NOT_YOU, "unauthorized", "you are another user")))
                return
            if not self._room.acquire(blocking=False):
                lines.write(fault_line(None, Fault(BUSY, "busy", f"{MOST_CLIENTS} clients are connected")))
                return
            connection = Connection(lines, self.service)
            self._connections.add(connection)
            try:
                connection.serve()
            finally:
                self._connections.discard(connection)
                self._room.release()

    def close(self) -> None:
        """Accepts no more clients, and ends every client's sessions."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in list(self._connections):
            connection.close()
        with suppress(OSError):
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        with suppress(OSError), open(self.token_file) as file:
            if file.read() == self.service.token:  # and not of another that has this place by now
                os.unlink(self.token_file)
