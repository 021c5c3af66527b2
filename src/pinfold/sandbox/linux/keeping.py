"""The keeper process, as the host holds it: asked for sessions and pens, one question at a time.

`start_early` is for programs that know from their first line on that they will want one: the keeper then
makes itself ready while they load the rest. So this module imports little; `subprocess` alone costs 3 ms.
"""

import os
import select
import socket
import sys
from _thread import allocate_lock

import pinfold
from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux import channel

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(pinfold.__file__)))
PROGRAM = "import sys; sys.path.insert(0, {!r}); from pinfold.sandbox.linux.keeper import main; main()"

_early: "list[Keeping]" = []


def start_early() -> None:
    """Starts a keeper for whoever asks for the first; a trouble is told to them, by the next attempt."""
    try:
        _early.append(Keeping())
    except ConfinementError:
        return


def take() -> "Keeping":
    """The one that was started early, or another."""
    while _early:
        keeping = _early.pop()
        if keeping.owner == os.getpid() and keeping.is_alive():
            return keeping
    return Keeping()


class Keeping:
    """INVARIANT: the host's threads never fork; this starts a program, by vfork."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.owner = os.getpid()
        if not sys.executable:
            raise ConfinementError("this Python does not know its own program, so no keeper can be started")
        try:
            self.control, theirs = channel.pair()
        except OSError as error:
            raise ConfinementError(f"the keeper could not be started: {error}; nothing was run") from None
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(SOURCE)],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=(),
            )
            self.process = os.pidfd_open(self.pid)
        except OSError as error:
            self.control.close()
            raise ConfinementError(f"the keeper could not be started: {error}; nothing was run") from None
        finally:
            theirs.close()

    def require_own(self) -> None:
        """A fork of the host has our sockets too, and would take the answers to our questions."""
        if os.getpid() != self.owner:
            raise ConfinementError("this session belongs to the process that opened it; open another")

    def ask(self, request: object) -> tuple[int, int, list[socket.socket]]:
        """A session or a pen: its number, its first process, and the ways to it and to a pen's warden."""
        answer, descriptors = self._exchange(request)
        match answer:
            case ("made", int(number), int(pid)):
                return number, pid, [socket.socket(fileno=descriptor) for descriptor in descriptors]
            case ("failed", str(why)):
                raise ConfinementError(
                    f"no pen could be made: {why}; nothing was run; `pinfold doctor` says what is missing"
                )
        raise ConfinementError("the keeper gave no answer that is known")

    def close(self, number: int) -> None:
        """Ends a session or a pen, and everything in it."""
        try:
            self._exchange(("close", number))
        except ConfinementError:
            return  # the keeper is gone, and with it all that it kept

    def _exchange(self, request: object) -> tuple[object, list[int]]:
        self.require_own()
        with self.lock:
            try:
                channel.send(self.control, request)
                return channel.receive(self.control)
            except (channel.Closed, OSError):
                raise ConfinementError("the keeper is gone; nothing was run") from None

    def end(self) -> None:
        with self.lock:
            self.control.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            self.is_alive(wait=True)  # a host that ignores SIGCHLD has it reaped by the kernel
        os.close(self.process)

    def is_alive(self, *, wait: bool = False) -> bool:
        poll = select.poll()
        poll.register(self.process, select.POLLIN)
        return not poll.poll(None if wait else 0)
