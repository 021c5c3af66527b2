"""What is done when somebody lets go of a command that they followed.

Whoever lets go of a generator may be Python's collector, which comes on any thread and at any moment: on one,
too, that holds a lock which the work needs, and would wait for itself there. So the work has a thread of its
own. It is waited for, but no longer than it takes where nobody is in its way.
"""

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable

PATIENCE = 2.0
"""Seconds; to end a command takes a warden up to one."""


def done_elsewhere(work: Callable[[], None]) -> None:
    """Raises what the work raises, if it does so in time. Preconditions: this is not Python's own end."""
    done = allocate_lock()
    done.acquire()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (it is raised where the work is waited for)
            failures.append(error)
        finally:
            done.release()

    try:
        start_new_thread(run, ())
    except RuntimeError:  # there can be no more threads
        return work()
    done.acquire(timeout=PATIENCE)
    if failures:
        raise failures[0]
    return None
