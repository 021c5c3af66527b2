"""Sessions that nobody has closed when Python ends: they are closed then, so that each run has its end.

Facts (atexit): what was registered last is called first. None of it is called where Python is killed, nor in
a fork that ends by `os._exit`, as those of multiprocessing do.
"""

import atexit
from _weakrefset import WeakSet  # without the rest of `weakref`, which takes a cold start half a millisecond
from contextlib import suppress
from typing import Protocol


class Closed(Protocol):
    def close(self) -> None: ...


_open: WeakSet[Closed] = WeakSet()


def close_at_exit(session: Closed) -> None:
    """Unless it was closed before: more is no harm."""
    if not _open:
        close_first()
    _open.add(session)


def close_first() -> None:
    """Sessions are closed before whatever was to be ended until now."""
    atexit.unregister(_close)
    atexit.register(_close)


def _close() -> None:
    for session in list(_open):
        with suppress(Exception):  # there are others
            session.close()
