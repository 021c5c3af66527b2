"""Threads that do what they are given, in turn: as many as there is to do, and a few at most.

Fact that shapes it: Python does not end before the threads of `concurrent.futures` have, whatever they wait
for, and one of these may wait for a person.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue


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
