"""Passes a running command's output to the caller's streams, and their input to the command.

The caller is this process or a client of the service (`output.VerbCaller`). A thread that reads keys ends
with this process, or with the service's work for the client.
"""

import os
import select
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from pinfold.approval.terminal_turn import Turn
from pinfold.cli.output import caller, for_caller, note_written
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
    one = caller()
    if not one.has_input or (is_terminal(one.stdin) and not one.is_in_front()):
        return None, lambda: None
    if not is_terminal(one.stdin):
        return one.stdin, lambda: None
    given, ours = os.pipe()
    return given, lambda: one.start(lambda: _pass_keys(ours, turn))


def carry_streams(execution: Execution, turn: Turn) -> Exited:
    """Copies the output to our streams as it comes; to a terminal, not while a question holds the `turn`."""
    end, one = None, caller()
    terminals = [descriptor for descriptor in (one.stdout, one.stderr) if is_terminal(descriptor)]
    drawn_on: set[int] = set()
    try:
        for event in execution.events():
            match event:
                case Output(stream, data):
                    descriptor = one.stdout if stream is Stream.STDOUT else one.stderr
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
    """Makes the terminal the command's window: keys go in raw, and the size follows.

    The thread that holds `turn` may read keys and draw. `ended` is called before the terminal is restored: no
    thread may change it afterwards.
    """
    import termios
    import tty

    one = caller()
    before = termios.tcgetattr(one.stdin)
    one.follow_size(for_caller(lambda: _follow(execution)))
    one.start(lambda: _type(execution, turn))
    try:
        tty.setraw(one.stdin, termios.TCSANOW)  # what was typed ahead is the command's
        return carry_streams(execution, turn)
    finally:
        ended()
        one.follow_size(None)
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(one.stdin, termios.TCSANOW, before)


def _follow(execution: Execution) -> None:
    with suppress(PinfoldError, OSError):  # it has just ended
        execution.resize(*size())


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def size() -> tuple[int, int]:
    """Rows and columns of the terminal."""
    columns, rows = os.get_terminal_size(caller().stdout)
    return rows, columns


def _keys(turn: Turn) -> bytes:
    """Keys that were typed for the command; empty at the end."""
    one = caller()
    poll = select.poll()
    poll.register(one.stdin, select.POLLIN)
    waiting = select.poll()
    for descriptor in (one.stdin, one.wake):
        if descriptor >= 0:
            waiting.register(descriptor, select.POLLIN)
    while True:
        if any(descriptor == one.wake for descriptor, _ in waiting.poll()):
            return b""
        if not one.may_read_keys():
            time.sleep(0.1)
            continue
        with turn:
            if poll.poll(0):  # a question may have read the keys meanwhile
                try:
                    return os.read(one.stdin, CHUNK)
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
