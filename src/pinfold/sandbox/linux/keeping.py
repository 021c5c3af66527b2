"""The keeper process, as the host holds it: asked for sessions and pens, one question at a time."""

import os
import socket
import subprocess
import sys
import threading

import pinfold
from pinfold.model.errors import ConfinementError
from pinfold.sandbox.linux import channel

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(pinfold.__file__)))
PROGRAM = "import sys; sys.path.insert(0, {!r}); from pinfold.sandbox.linux.keeper import main; main()"


class Keeping:
    """INVARIANT: the host's threads never fork; this starts a program, by vfork."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner = os.getpid()
        if not sys.executable:
            raise ConfinementError("this Python does not know its own program, so no keeper can be started")
        self.control, theirs = channel.pair()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(SOURCE)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            self.control.close()
            raise ConfinementError(f"the keeper could not be started: {error}") from None
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
                raise ConfinementError(f"no pen could be made: {why}")
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
        self.process.wait()

    def is_alive(self) -> bool:
        return self.process.poll() is None
