"""The host's connections to the keeper and the granter: one request at a time.

A signal may interrupt the thread that waits for the keeper's answer (Ctrl-C), and the answer comes all the
same. So each answer bears its request's number: the next request must not get a pen that was made for
another's policy. The granter makes one granted change at a time.
"""

import _socket
import os
import select
import sys
import threading
from errno import EMFILE

from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux.host import spawn_keeper
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import ChangeDone, GranterRequest
from pinfold.sandbox.linux.protocol.keeper import (
    Built,
    EndBuilt,
    KeeperReply,
    KeeperRequest,
    NewGranter,
    NotBuilt,
    NumberedReply,
    NumberedRequest,
)
from pinfold.sandbox.threads import require_free


def take() -> "KeeperClient":
    """The one that was started early, or another."""
    while spawn_keeper.early:
        owner, *begun = spawn_keeper.early.pop()
        if owner == os.getpid():
            keeper = KeeperClient((begun[0], begun[1], begun[2]))
            if keeper.is_alive():
                return keeper
            keeper.end()
    return KeeperClient()


class KeeperClient:
    def __init__(self, begun: tuple[int, int, int] | None = None) -> None:
        self.lock = threading.RLock()
        self.owner = os.getpid()
        self.asked = 0
        if not sys.executable:
            raise ConfinementError("this Python does not know its own program, so no keeper can be started")
        try:
            self.pid, self.process, control = begun or spawn_keeper.start_keeper()
        except OSError as error:
            raise ConfinementError(
                f"the sandbox's keeper process could not be started: {error}; nothing was run"
            ) from None
        self.control = _socket.socket(fileno=control)

    def require_own(self) -> None:
        """A fork of the host has our sockets too, and would take the answers to our questions."""
        if os.getpid() != self.owner:
            raise ConfinementError("this session belongs to the process that opened it; open another")

    def ask(self, request: KeeperRequest, connections: int = 1) -> tuple[int, int, list[_socket.socket]]:
        """A session or a pen: its number, its first process, and the connections to it.

        A pen has one to its spawner, one to its warden and, if it may connect to hosts, one for the gate.
        Descriptors that we have no room for are lost on their way (unix(7)); what was made is ended then.
        """
        answer, descriptors = self._exchange(request)
        match answer:
            case Built(number, pid):
                found = [_socket.socket(fileno=descriptor) for descriptor in descriptors]
                if len(found) == connections:
                    return number, pid, found
                for connection in found:
                    connection.close()
                self.close(number)
                raise ConfinementError(
                    f"no more sandboxes can be kept: {os.strerror(EMFILE)}; nothing was run"
                )
            case NotBuilt(why):
                raise ConfinementError(
                    f"the sandbox could not be built: {why}; nothing was run; "
                    "`pinfold doctor` says what is missing"
                )
        raise ConfinementError("the sandbox keeper gave an unknown answer; nothing was run")

    def close(self, number: int) -> None:
        """Ends a session or a pen, and everything in it."""
        try:
            self._exchange(EndBuilt(number))
        except ConfinementError:
            return  # the keeper is gone, and with it all that it kept

    def _exchange(self, request: KeeperRequest) -> tuple[KeeperReply, list[int]]:
        self.require_own()
        require_free(self.lock)
        with self.lock:
            self.asked += 1
            try:
                channel.send(self.control, NumberedRequest(self.asked, request))
                while True:
                    answer, descriptors = channel.receive(self.control, NumberedReply)
                    if answer.number == self.asked:
                        return answer.reply, descriptors
                    # The thread that asked has gone: what the keeper made ends with its last descriptor.
                    for descriptor in descriptors:
                        os.close(descriptor)
            except (channel.ChannelClosed, OSError):
                raise ConfinementError(
                    "the sandbox keeper has ended; nothing was run; start a new session"
                ) from None

    def end(self) -> None:
        """Ends it and everything it keeps, and awaits that. Once is enough; more is no harm."""
        with self.lock:
            process, self.process = self.process, -1
            self.control.close()
        if process < 0:
            return
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            _has_ended(process, wait=True)  # a host that ignores SIGCHLD has it reaped by the kernel
        os.close(process)

    def is_alive(self) -> bool:
        return (process := self.process) >= 0 and not _has_ended(process)


def _has_ended(process: int, *, wait: bool = False) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(None if wait else 0))


PATIENCE = 30.0
"""Seconds that the granter may take."""
GONE = "the process that makes granted changes could not be reached"


class GranterClient:
    """May be used from any thread. The keeper makes the granter when there is a first change."""

    def __init__(self, keeper: KeeperClient) -> None:
        self.keeper = keeper
        self.lock = threading.Lock()
        self.number = 0
        self.connection: _socket.socket | None = None
        self.closed = False

    def ask(self, request: GranterRequest) -> tuple[int, int | None]:
        """An errno, or `CHANGED` or `COMPLETES`, and the descriptor of an open."""
        with self.lock:
            try:
                if self.closed:
                    raise channel.ChannelClosed
                if self.connection is None:
                    self.number, _, (self.connection,) = self.keeper.ask(NewGranter())
                    self.connection.settimeout(PATIENCE)
                channel.send(self.connection, request)
                done, descriptors = channel.receive(self.connection, ChangeDone)
            except (channel.ChannelClosed, OSError, ConfinementError):
                self._end()
                raise ConfinementError(GONE) from None
            except BaseException:
                # Interrupted, as by Ctrl-C: what was granted to one caller must not be the next one's answer.
                self._end()
                raise
        return done.error, descriptors[0] if descriptors else None

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._end()

    def _end(self) -> None:
        """Preconditions: the lock is held."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            self.keeper.close(self.number)
