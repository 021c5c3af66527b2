"""Who ends a verb from outside, by SIGTERM or by closing its terminal, ends its command as Ctrl-C does.

So that the end is written down, and the terminal is what it was.
"""

import signal
from typing import NoReturn

from pinfold.cli import Ended

ENDING = (signal.SIGTERM, signal.SIGHUP)


def hear_endings() -> None:
    """From now on they are an `Ended` in the main thread; but for what is ignored, as `nohup` wants it."""
    for each in ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, _end)


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # who says it twice does not want to wait
    raise Ended(number)
