"""Who ends a verb from outside, by SIGTERM or by closing its terminal, ends its command as Ctrl-C does.

So that the end is written down, and the terminal is what it was.

Facts about shells (bash's jobs.c): at a prompt, a loop is left and the next prompt begins a line of its own
where a program died of SIGINT. One that ends with 130 has heard Ctrl-C and gone on, and so does the loop.

What this means for us: where our terminal is the command's window, Ctrl-C is the command's alone. If it dies
of that, so do we, once everything is written. The exit code that a shell tells is the same.
"""

import os
import signal
from typing import NoReturn

from pinfold.cli import EndedBySignal

ENDING = (signal.SIGTERM, signal.SIGHUP)

_died_in_window = False


def end_on_signals() -> None:
    """From now on they are an `Ended` in the main thread; but for what is ignored, as `nohup` wants it."""
    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, _end)


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # who says it twice does not want to wait
    raise EndedBySignal(number)


def note_interrupt() -> None:
    """The command in our window has died of SIGINT."""
    global _died_in_window  # it is how this process is to end
    _died_in_window = True


def follow_command() -> None:
    """Ends this process as its command has ended, if that is by SIGINT in our window; else returns."""
    if _died_in_window and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
