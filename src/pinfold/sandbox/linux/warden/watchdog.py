"""Nothing that is done with a caller's descriptor keeps the loop, which answers all, longer than a moment.

Facts that shape it:
- A copy of a caller's descriptor is its own open file. Its flags and options are not ours to change, and the
  caller's other threads may change them at any time: how long a connect waits is theirs to say.
- If the caller has gone meanwhile ours is the last copy, and closing a socket that lingers waits for its
  other side, which its program can keep from ever being heard (IP_MINTTL).
- A handled signal ends both waits (EINTR). It is repeated, since one that comes before the wait ends nothing.
  What Python waits in by itself goes on.
- Signals for the process go to its main thread first, and that is the loop's.

So a timer stands from the first copy on until the call is answered and every copy is closed.
"""

import signal

MOMENT = 0.005
"""More than a tick: a timer that is due before the next one costs 16 us to set and unset, a later one 1."""

_stands = False


def prepare(number: int = signal.SIGALRM) -> None:
    """Being handled is all that the signal is for."""
    signal.signal(number, lambda *_: None)


def begin() -> None:
    global _stands  # a process has one such timer
    if not _stands:
        signal.setitimer(signal.ITIMER_REAL, MOMENT, MOMENT)
        _stands = True


def end() -> None:
    global _stands
    if _stands:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _stands = False
