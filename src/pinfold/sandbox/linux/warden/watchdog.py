"""A timer that ends every wait of the loop on a caller's descriptor after a moment.

Facts that shape it:
- A copy of a caller's descriptor refers to the caller's open file. Its flags and options are not ours to
  change, and the caller's other threads may change them at any time, such as how long a connect waits.
- If the caller has ended meanwhile, ours is the last copy. Closing a socket with SO_LINGER waits for its
  other side, and a program can keep that side from ever answering (IP_MINTTL).
- A handled signal ends both waits (EINTR). The timer repeats, since a signal that comes before the wait ends
  nothing. Waits of Python's own resume by themselves.
- Signals for the process go to its main thread first, which runs the loop.

So the timer runs from the first copy until the call is answered and every copy is closed.
"""

import signal

MOMENT = 0.005
"""More than a tick: a timer that fires before the next tick costs 16 us to set and unset, a later one 1
us."""

_is_running = False


def prepare(number: int = signal.SIGALRM) -> None:
    """Gives the signal a handler, which is all it needs."""
    signal.signal(number, lambda *_: None)


def begin() -> None:
    global _is_running  # a process has one such timer
    if not _is_running:
        signal.setitimer(signal.ITIMER_REAL, MOMENT, MOMENT)
        _is_running = True


def end() -> None:
    global _is_running
    if _is_running:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _is_running = False
