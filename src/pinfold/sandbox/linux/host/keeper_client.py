"""The keeper process, as the host holds it: asked for sessions and pens, one question at a time.

Who waits for an answer may be interrupted (Ctrl-C), and the answer comes all the same. So each bears its
question's number: the next one who asks must not get a pen that was made by another's policy.
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
from pinfold.sandbox.linux.protocol.keeper import (
    Built,
    EndBuilt,
    KeeperReply,
    KeeperRequest,
    NotBuilt,
    NumberedReply,
    NumberedRequest,
)
from pinfold.sandbox.threads import require_free


def take() -> "Keeping":
    """The one that was started early, or another."""
    while spawn_keeper.early:
        owner, *begun = spawn_keeper.early.pop()
        if owner == os.getpid():
            keeping = Keeping((begun[0], begun[1], begun[2]))
            if keeping.is_alive():
                return keeping
            keeping.end()
    return Keeping()


class Keeping:
    def __init__(self, begun: tuple[int, int, int] | None = None) -> None:
        self.lock = threading.RLock()
        self.owner = os.getpid()
        self.asked = 0
        if not sys.executable:
            raise ConfinementError("this Python does not know its own program, so no keeper can be started")
        try:
            self.pid, self.process, control = begun or spawn_keeper.start_keeper()
        except OSError as error:
            raise ConfinementError(f"the keeper could not be started: {error}; nothing was run") from None
        self.control = _socket.socket(fileno=control)

    def require_own(self) -> None:
        """A fork of the host has our sockets too, and would take the answers to our questions."""
        if os.getpid() != self.owner:
            raise ConfinementError("this session belongs to the process that opened it; open another")

    def ask(self, request: KeeperRequest, ways: int = 1) -> tuple[int, int, list[_socket.socket]]:
        """A session or a pen: its number, its first process, and the ways to it, a pen's warden and its gate.

        Descriptors that we have no room for are lost on their way (unix(7)); what was made is ended then.
        """
        answer, descriptors = self._exchange(request)
        match answer:
            case Built(number, pid):
                found = [_socket.socket(fileno=descriptor) for descriptor in descriptors]
                if len(found) == ways:
                    return number, pid, found
                for way in found:
                    way.close()
                self.close(number)
                raise ConfinementError(f"no pen could be held: {os.strerror(EMFILE)}; nothing was run")
            case NotBuilt(why):
                raise ConfinementError(
                    f"no pen could be made: {why}; nothing was run; `pinfold doctor` says what is missing"
                )
        raise ConfinementError("the keeper gave no answer that is known")

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
                    # Whoever asked has gone: what was made ends as soon as nobody holds the way to it.
                    for descriptor in descriptors:
                        os.close(descriptor)
            except (channel.Closed, OSError):
                raise ConfinementError("the keeper is gone; nothing was run") from None

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
