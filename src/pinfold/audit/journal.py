"""The journal: one row for each thing that is about to happen, and one for how it ended.

INVARIANT: a row is written before the thing it records is done, and no row is ever changed. What cannot be
journaled is not done.

The newest rows are lines of a file (`tail_file`), all others are in a table of SQLite's (`archive`). A commit
to the table takes 130 us where other work has had the processor's caches, and each run has two. A line takes
a tenth of that, and needs no database to be opened before the first. So lines are moved many at a time.

A process that is killed after it copied lines, and before it removed them, leaves them in both places. A
number is a row's name, so a row that is there twice counts once.
"""

import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Self

from msgspec.structs import asdict

from pinfold.audit.tail_file import JournalEntry, TailFile
from pinfold.model.errors import PinfoldError
from pinfold.model.outer_sandbox import outer_sandbox

if TYPE_CHECKING:
    from pinfold.audit.archive import Forgotten

LARGEST = 1 << 18
"""Bytes of lines after which they are moved: the lines of some 300 commands."""
MARK = b"SQLite format 3\0"
FORGOTTEN = "forgotten"
"""The kind of row that records which rows were deleted to keep the journal within its size."""
ELSEWHERE = "free disk space, make its directory writable, or name another one in XDG_STATE_HOME"
"""The remedy if the journal cannot be written."""
MOST_OF_ONE = 256
"""Different things of one command that are counted apart; all further ones are one."""
MOST_OF_NONE = 4096
"""Of those without a known command, in a session."""
MOST_COMMANDS = 1024
REST = object()
JournalRow = tuple[str, str, Mapping[str, object], int | None]
"""Session, kind, data, and what it is about."""


class JournalError(PinfoldError):
    """The journal cannot be written, so nothing is done."""

    def __init__(self, path: str, why: object) -> None:
        self.why = str(why)
        is_closed = any(os.strerror(code) in self.why for code in (errno.EROFS, errno.EACCES, errno.EPERM))
        around = outer_sandbox(os.environ) if is_closed else ""
        remedy = f"{ELSEWHERE}; {around}" if around else ELSEWHERE
        super().__init__(f"the journal {path} cannot be written, so nothing is run: {why}; {remedy}")


class Journal:
    """Append-only. Any number of threads and processes may share one."""

    def __init__(self, path: str, size: int | None = None) -> None:
        """Beyond `size` bytes the journal deletes its oldest rows; None sets no limit."""
        self.path, self.size = path, size
        self._lock = threading.RLock()
        """Taken twice by one thread if Python collects a run after it has the lock and before it writes."""
        self._writer = 0
        """The thread that writes."""
        self._behind: list[JournalRow] = []
        """Rows that came while that very thread wrote one: ends of runs that Python collected just then."""
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            _require_table(path)
            self._lines = TailFile(path, os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise self._trouble(error) from None

    def append(self, session: str, kind: str, data: Mapping[str, object], about: int | None = None) -> int:
        """Writes one row; returns its number."""
        row = session, kind, data, about
        if self._writer == threading.get_ident():
            self._behind.append(row)
            return 0
        return self._in_turn(lambda: self._append(row))

    def append_policy(self, session: str, data: Mapping[str, object]) -> int:
        """Writes a policy, unless the last recent one equals it; returns the number of either."""

        def write() -> int:
            last = self._lines.last_policy()
            return last.id if last and last.data == data else self._append((session, "policy", data, None))

        return self._in_turn(write)

    def settle(self) -> None:
        """Moves all rows into the table."""
        self._in_turn(lambda: self._settle(self._lines.head()[0])[1])

    def close(self) -> None:
        with self._lock:
            self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _in_turn(self, write: Callable[[], int]) -> int:
        with self._lock:
            self._writer = threading.get_ident()
            try:
                try:  # from here on: an interrupt in `begin` may come after it got its turn
                    self._lines.begin()
                    written = write()
                    while self._behind:
                        self._append(self._behind.pop(0))
                finally:
                    self._lines.end()
            except OSError as error:
                raise self._trouble(error) from None
            finally:
                self._writer = 0
        return written

    def _append(self, row: JournalRow) -> int:
        session, kind, data, about = row
        number, end = self._lines.head()
        if not number:
            number = self._last_kept() + 1
        if end > LARGEST:
            gone, end = self._settle(number)
            if gone is not None:
                end = self._lines.put(
                    JournalEntry(number, time.time(), session, FORGOTTEN, None, asdict(gone)), end
                )
                number += 1
        self._lines.put(JournalEntry(number, time.time(), session, kind, about, data), end)
        return number

    def _settle(self, number: int) -> "tuple[Forgotten | None, int]":
        """Moves the lines into the table. Returns what it deleted for that, and where emptied lines end."""
        if not number:
            return None, 0
        from pinfold.audit.archive import keep

        gone = keep(self.path, self._lines.rows(), self.size)
        return gone, self._lines.clear(number)

    def _last_kept(self) -> int:
        """The last number in the table, if there is one."""
        if not os.path.exists(self.path):
            return 0
        from pinfold.audit.archive import last

        return last(self.path)

    def _trouble(self, error: Exception) -> JournalError:
        return JournalError(self.path, getattr(error, "strerror", None) or error)


def _require_table(path: str) -> None:
    """Raises OSError if the file is not an SQLite database."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    try:
        if os.read(file, len(MARK)) not in (MARK, b""):
            raise OSError("file is not a database")
    finally:
        os.close(file)


class Repeats:
    """Which connections and questions of a command are journaled: each new one, and some repeats.

    A command connects and asks as often as it likes, so it must not choose how many rows that takes.

    Precondition: one thread at a time.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[str, dict[Hashable, int]] = OrderedDict()

    def count(self, tag: str, what: Hashable, is_grant: bool = False) -> int:
        """How often it happened with this time, where that is to be written down; else 0. Each new grant is:
        a person gives no more than so many."""
        counts = self._counts.setdefault(tag, {})
        self._counts.move_to_end(tag)
        if len(self._counts) > MOST_COMMANDS:
            self._counts.popitem(last=False)
        if what not in counts and len(counts) >= (MOST_OF_ONE if tag else MOST_OF_NONE):
            if is_grant:
                return 1
            what = REST
        times = counts[what] = counts.get(what, 0) + 1
        return 0 if times & times - 1 else times
