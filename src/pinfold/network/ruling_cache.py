"""Rulings that stand until what they were made by changes, so that not every connection is asked about.

INVARIANT: what stands is a yes of the rules, for one pen, host and port, and it is used only while every
file that it was made by is as it was *before* it was asked for, and the session has not said otherwise. In
doubt it is asked for again; a no is asked for every time.
"""

import os
from typing import TypeAlias

from pinfold.model.decision import Verdict
from pinfold.network.ruling import Ruling

MOST = 4096

About: TypeAlias = tuple[str, str, int | None]
"""A pen, a host, a port."""
Marks: TypeAlias = tuple[tuple[int, ...], ...]


class Standing:
    def __init__(self) -> None:
        self._files: tuple[str, ...] = ()
        self._marks: Marks = ()
        self._rulings: dict[About, Ruling] = {}
        self._times_forgotten = 0

    def now(self) -> tuple[int, Marks]:
        """To be told to `keep` with a ruling: what was so before it was asked for."""
        return self._times_forgotten, _marks(self._files)

    def keep(self, about: About, ruling: Ruling, when: tuple[int, Marks]) -> None:
        if ruling.verdict is not Verdict.ALLOW or not ruling.files:
            return
        times, marks = when
        if ruling.files != self._files:
            self._files = ruling.files  # from the next question on we know what to look at
            self._rulings.clear()
        elif times == self._times_forgotten:
            if marks != self._marks or len(self._rulings) >= MOST:
                self._rulings.clear()
            self._marks = marks
            self._rulings[about] = ruling

    def find(self, about: About) -> Ruling | None:
        ruling = self._rulings.get(about)
        if ruling and _marks(self._files) != self._marks:
            self._rulings.clear()
            return None
        return ruling

    def forget(self) -> None:
        self._times_forgotten += 1
        self._rulings.clear()


def _marks(files: tuple[str, ...]) -> Marks:
    return tuple(map(_mark, files))


def _mark(path: str) -> tuple[int, ...]:
    """What changes when a file does. The change time is among it: unlike the others it cannot be set back."""
    try:
        facts = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev, facts.st_mode
