"""Pinfold's own threads: one that starts or fails, a pool, and work that must leave its thread.

Facts:
- Where the user has as many threads as allowed, `start` raises RuntimeError. Joining a thread that was never
  started raises one, too. Python does not wait for daemon threads at its end (threading).
- Python does not end before the threads of `concurrent.futures` have, and one of ours may wait for a person.
- Python's collector may close a generator on any thread and at any moment, also on one that holds a lock
  which the generator's cleanup needs. Such cleanup would wait for itself, so it runs on a thread of its own
  (`done_elsewhere`).
"""

import threading
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from errno import EAGAIN
from queue import SimpleQueue

from pinfold.model.errors import ConfinementError

IN_THE_MIDDLE = (
    "this is in the middle of a command's start, as a signal's handler may be: "
    "raise an exception there, and close the session where it is caught"
)


def begin_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Raises OSError if there can be no more, as other things do that the system has no more of."""
    thread = threading.Thread(target=work, name=f"pinfold-{name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(EAGAIN, "no more threads can be started") from None
    return thread


def require_free(lock: threading.RLock) -> None:
    """Raises if this thread has the lock already. A signal handler interrupts its own thread. It would wait
    for itself, or work on what is half done."""
    if lock._is_owned():  # type: ignore[attr-defined]  # what a Condition asks of each lock
        raise ConfinementError(IN_THE_MIDDLE)


class Workers:
    """May be used from any thread."""

    def __init__(self, name: str, most: int, *, stay: bool = True) -> None:
        """Unless they `stay` for more until they are closed, each ends when there is nothing for it to do."""
        self.name, self.most, self.stay = name, most, stay
        self.lock = threading.Lock()
        self.jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.threads = self.under_way = 0

    def give(self, job: Callable[[], None]) -> None:
        """Raises RuntimeError if there is no thread to do it, and none can be had."""
        with self.lock:
            self.under_way += 1
            if self.threads < min(self.most, self.under_way):
                self._add()
            self.jobs.put(job)

    def close(self) -> None:
        """They end when they have done what they were given."""
        with self.lock:
            self.most = 0
            for _ in range(self.threads):
                self.jobs.put(None)

    def _add(self) -> None:
        try:
            threading.Thread(target=self._work, name=f"pinfold-{self.name}", daemon=True).start()
            self.threads += 1
        except RuntimeError:  # the user has as many as may be
            if not self.threads:
                self.under_way -= 1
                raise

    def _work(self) -> None:
        while job := self.jobs.get():
            with suppress(Exception):  # each answers by itself; the next one must not suffer
                job()
            with self.lock:
                self.under_way -= 1
                if not self.stay and self.under_way < self.threads:
                    self.threads -= 1
                    return


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
