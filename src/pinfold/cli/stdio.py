"""Passes a running command's output to our streams, and our input to the command."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from pinfold.approval.terminal_turn import Turn
from pinfold.cli.output import note_written
from pinfold.model.errors import InternalError, PinfoldError
from pinfold.model.events import Exited, Output, Stream
from pinfold.session.execution import Execution

CHUNK = 1 << 16
ESCAPE, UTF_8 = b"\x1b", b"\x1b%G"


def standard_input(turn: Turn) -> tuple[int | None, Callable[[], None]]:
    """A standard input for the command, and a function to call once the command runs.

    None if ours is closed, or if it is a terminal and we are in the background, where the kernel stops
    readers. From a terminal the command gets what was typed while no question held the `turn`, which reads
    the same keys.
    """
    if sys.stdin is None or (is_terminal(0) and not is_in_front()):
        return None, lambda: None
    if not is_terminal(0):
        return 0, lambda: None
    given, ours = os.pipe()
    return given, threading.Thread(target=_pass_keys, args=(ours, turn), daemon=True).start


def carry_streams(execution: Execution, turn: Turn) -> Exited:
    """Copies the output to our streams as it comes; to a terminal, not while a question holds the `turn`."""
    end = None
    terminals = [descriptor for descriptor in (1, 2) if is_terminal(descriptor)]
    drawn_on: set[int] = set()
    try:
        for event in execution.events():
            match event:
                case Output(stream, data):
                    descriptor = 1 if stream is Stream.STDOUT else 2
                    with turn if descriptor in terminals else nullcontext():
                        _write(descriptor, data)
                    if descriptor in terminals:
                        note_written(data)
                        drawn_on |= {descriptor} if ESCAPE in data else set()
                case Exited():
                    end = event
    finally:
        # What pinfold prints later is UTF-8; in another encoding some of its bytes would be control
        # characters.
        for descriptor in drawn_on:
            with suppress(OSError):  # the terminal has gone
                _write(descriptor, UTF_8)
    return _known(end)


def carry_on_terminal(execution: Execution, turn: Turn, ended: Callable[[], None]) -> Exited:
    """Makes our terminal the command's window: keys go in raw, and the size follows.

    The thread that holds `turn` may read keys and draw. `ended` is called before the terminal is restored: no
    thread may change it afterwards.
    """
    import termios
    import tty

    before = termios.tcgetattr(0)
    signal.signal(signal.SIGWINCH, lambda *_: _follow(execution))
    threading.Thread(target=_type, args=(execution, turn), daemon=True).start()
    try:
        tty.setraw(0)
        return carry_streams(execution, turn)
    finally:
        ended()
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _follow(execution: Execution) -> None:
    with suppress(PinfoldError, OSError):  # it has just ended
        execution.resize(*size())


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def is_in_front() -> bool:
    """Whether we are in the foreground. A background job (`&`) that changes the terminal is stopped."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # not our controlling terminal, so the kernel does not stop us
        return True


def size() -> tuple[int, int]:
    """Rows and columns of our terminal."""
    columns, rows = os.get_terminal_size(1)
    return rows, columns


def _keys(turn: Turn) -> bytes:
    """Keys that were typed for the command; empty at the end."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while True:
        poll.poll()
        with turn:
            if poll.poll(0):  # a question may have read the keys meanwhile
                try:
                    return os.read(0, CHUNK)
                except OSError:  # the terminal has gone
                    return b""


def _type(execution: Execution, turn: Turn) -> None:
    while data := _keys(turn):
        while data:
            try:
                data = data[execution.write(data) :]
            except BlockingIOError:
                time.sleep(0.01)  # the command does not read yet
            except Exception:  # noqa: BLE001  (the command has ended, and its terminal with it)
                return


def _pass_keys(pipe: int, turn: Turn) -> None:
    with suppress(BrokenPipeError):  # the command reads no more
        while data := _keys(turn):
            _write(pipe, data)
    os.close(pipe)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _known(end: Exited | None) -> Exited:
    if end is None:
        raise InternalError("a command's events ended before the command")
    return end
