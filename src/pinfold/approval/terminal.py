"""Asks the person at the terminal.

Facts about terminals that shape it:
- /dev/tty is the controlling terminal, whatever standard input and output are. A fenced command has another
  one, or none: it cannot draw here, nor type here.
- What was typed before the question (or pasted, or sent by a program) is no answer to it: it is thrown away.
"""

import os
import select
import threading
import time
from collections.abc import Callable

from pinfold.model.permission import Answer, PermissionNeeded

TTY = "/dev/tty"
SECONDS = 120.0
YES = (b"y", b"yes")

_asking = threading.Lock()


class TerminalApprover:
    """`tell` puts a question into lines that are safe to draw."""

    name = "the person at the terminal"

    def __init__(self, tell: Callable[[PermissionNeeded], list[str]], seconds: float = SECONDS) -> None:
        self._tell = tell
        self._seconds = seconds

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
        import termios

        try:
            terminal = os.open(TTY, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            _write(terminal, "\n".join([*self._tell(question), "", ""]))
            termios.tcflush(terminal, termios.TCIFLUSH)
            _write(terminal, f"run it? y or n (no after {seconds:.0f} seconds) ")
            said = _line(terminal, seconds)
            if said is None:
                _write(terminal, "\n")
            return Answer.ONCE if said is not None and said.strip().lower() in YES else Answer.NO
        finally:
            os.close(terminal)


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
