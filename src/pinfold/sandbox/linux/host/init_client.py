"""The host's side of a session's pid 1 (`init`): what it is asked for."""

import _socket
import os
import threading
from errno import EMFILE
from typing import TYPE_CHECKING

from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.command import (
    CARRIED,
    DIAGNOSIS,
    LEFT,
    MOST_PROCESSES,
    MOST_TAGGED,
    REQUEST,
    RESERVED_PIDS,
    STREAM,
    TAGGED,
)

if TYPE_CHECKING:
    from socket import socket


LONGEST = LEFT.size + MOST_TAGGED * TAGGED.size


class InitClient:
    """May be used from any thread."""

    def __init__(self, control: _socket.socket) -> None:
        self.control = control
        """It says nothing unasked: what else is seen there is its end."""
        self.closed = False
        self._lock = threading.Lock()
        self._most = 0

    def kill(self, tag: int) -> None:
        """Ends every process of one command."""
        with self._lock:
            left = 0 if self.closed else self._ask(tag)
        if left:
            raise ConfinementError(f"{left} processes of the command could not be ended; close the session")

    def bound(self, processes: int | None) -> None:
        """As many processes as the most generous pen may have: what bounds root, whom NPROC does not."""
        wanted = MOST_PROCESSES if processes is None else min(RESERVED_PIDS + processes, MOST_PROCESSES)
        with self._lock:
            if wanted > self._most:
                self._ask(0, wanted)
                self._most = wanted

    def _ask(self, tag: int, most: int = 0) -> int:
        """How many processes are left."""
        try:
            return self._exchange(tag, most)[0]
        except (OSError, channel.ChannelClosed):
            return 0  # it is gone, and with it every process of the session

    def carried(self) -> dict[int, int]:
        """The tags that living processes carry, and the number inside of a process that carries it."""
        with self._lock:
            if self.closed:
                return {}
            try:
                _, _, data = self._exchange(0, CARRIED)
            except (OSError, channel.ChannelClosed):
                return {}
        return dict(TAGGED.iter_unpack(data))

    def _exchange(self, tag: int, most: int) -> tuple[int, list[int], bytes]:
        """How many are left, descriptors, and the rest of the answer. A thread that was interrupted before
        may have left its answer in the socket; this skips it.
        """
        self.control.send(REQUEST.pack(tag, most))
        while True:
            data, descriptors = channel.receive_bytes(self.control, LONGEST)
            *asked, left = LEFT.unpack_from(data)
            if asked == [tag, most]:
                return left, descriptors, data[LEFT.size :]
            for descriptor in descriptors:
                os.close(descriptor)

    def reach(self) -> "socket":
        """A stream socket of this session's network, where it stays. Raises OSError once there is none."""
        return self._socket(STREAM)

    def diagnosis(self) -> "socket":
        """What asks about the sockets of this session's network. Raises OSError once there is none."""
        return self._socket(DIAGNOSIS)

    def _socket(self, kind: int) -> "socket":
        from socket import socket

        with self._lock:
            try:
                _, descriptors, _ = self._exchange(0, kind)
            except channel.ChannelClosed:
                raise ConnectionRefusedError("the session has ended") from None
        if not descriptors:
            raise OSError(EMFILE, "no room for a socket of the session")
        return socket(fileno=descriptors[0])

    def close(self) -> None:
        """Nothing is asked of it any more."""
        with self._lock:
            self.closed = True
            self.control.close()
