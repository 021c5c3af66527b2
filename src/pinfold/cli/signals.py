"""Signals that end a verb: SIGTERM and SIGHUP end its command as Ctrl-C does.

So the end is journaled, and the terminal is restored.

Facts about shells (bash's jobs.c): if a program dies of SIGINT, the shell leaves the loop around it, and its
next prompt begins a new line. If a program exits with 130, it has handled Ctrl-C, and the loop goes on.

What this means for us: where our terminal is the command's window, Ctrl-C goes to the command alone. If the
command dies of it, this process sends itself SIGINT once everything is written. The exit code is the same.
"""

import os
import signal
from typing import NoReturn

from pinfold.cli import EndedBySignal

ENDING = (signal.SIGTERM, signal.SIGHUP)

_died_in_window = False


def end_on_signals() -> None:
    """Raises `EndedBySignal` in the main thread from now on, except for signals that are ignored
    (`nohup`)."""
    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, _end)


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise EndedBySignal(number)


def note_interrupt() -> None:
    """Remembers that the command in our window died of SIGINT."""
    global _died_in_window  # it is how this process is to end
    _died_in_window = True


def follow_command() -> None:
    """Dies of SIGINT if the command in our window did; else returns."""
    if _died_in_window and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
