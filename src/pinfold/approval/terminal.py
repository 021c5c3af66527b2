"""Asks the person at the terminal.

Facts about terminals that shape it:
- /dev/tty is the controlling terminal, whatever standard input and output are. A fenced command has another
  one, or none: it cannot draw here, nor type here.
- While a command runs on a terminal of its own, ours is raw: keys come one by one, unseen. A question that
  comes then needs lines, and the keys for itself.
- What was typed before the question (or pasted, or sent by a program) is no answer to it: it is thrown away.
"""

import os
import select
import termios
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinfold.model.permission import Answer, Capability, PermissionNeeded

TTY = "/dev/tty"
SECONDS = 120.0
YES = (b"y", b"yes")
WHAT = {Capability.CONNECT: "let it connect", Capability.WRITE: "let it"}
_INPUT, _OUTPUT, _LOCAL = 0, 1, 3
"""Where tcgetattr has these modes."""

_asking = threading.Lock()


class TerminalApprover:
    """`tell` puts a question into lines that are safe to draw."""

    name = "the person at the terminal"

    def __init__(self, tell: Callable[[PermissionNeeded], list[str]], seconds: float = SECONDS) -> None:
        self._tell = tell
        self._seconds = seconds
        self.turn = allocate_lock()
        """Held while a question is on the terminal; who else reads its keys takes it too."""

    @staticmethod
    def is_there() -> bool:
        """Whether there is a terminal at all."""
        try:
            os.close(os.open(TTY, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        deadline = time.monotonic() + self._seconds
        # One at a time: with two questions on the screen, an answer to one would be taken for the other's.
        if not _asking.acquire(timeout=self._seconds):
            return Answer.NO
        try:
            return self._ask(question, max(1.0, deadline - time.monotonic()))
        finally:
            _asking.release()

    def _ask(self, question: PermissionNeeded, seconds: float) -> Answer | None:
        try:
            terminal = os.open(TTY, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            with self.turn, _lines(terminal):
                return self._put(terminal, question, seconds)
        finally:
            os.close(terminal)

    def _put(self, terminal: int, question: PermissionNeeded, seconds: float) -> Answer:
        what = WHAT.get(question.capability, "run it")
        _write(terminal, "\n".join([*self._tell(question), "", ""]))
        termios.tcflush(terminal, termios.TCIFLUSH)
        _write(terminal, f"{what}? y or n (no after {seconds:.0f} seconds) ")
        said = _line(terminal, seconds)
        if said is None:
            _write(terminal, "\n")
        return Answer.ONCE if said is not None and said.strip().lower() in YES else Answer.NO


@contextmanager
def _lines(terminal: int) -> Iterator[None]:
    """What is typed is seen and comes by lines, whatever the terminal's mode was; then it is that again."""
    before = termios.tcgetattr(terminal)
    asking = [*before]
    asking[_INPUT] |= termios.ICRNL
    asking[_OUTPUT] |= termios.OPOST | termios.ONLCR
    asking[_LOCAL] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, asking)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _line(terminal: int, seconds: float) -> bytes | None:
    """What is typed up to the end of a line; None if time is up first."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(terminal, select.POLLIN)
    said = b""
    while not said.endswith(b"\n"):
        rest = deadline - time.monotonic()
        if rest <= 0 or not poll.poll(rest * 1000):
            return None
        try:
            piece = os.read(terminal, 1024)
        except BlockingIOError:
            continue
        if not piece:
            return said
        said += piece
    return said


def _write(terminal: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    poll = select.poll()
    poll.register(terminal, select.POLLOUT)
    while data and poll.poll(SECONDS * 1000):
        data = data[os.write(terminal, data) :]
