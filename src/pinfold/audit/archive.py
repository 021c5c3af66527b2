"""All rows of the journal but the newest: a table of SQLite's, which any program may query, within a size.

INVARIANT: when the oldest rows are deleted to make room, the last row stays, so that no number is given out
twice. A policy stays while a remaining row names it, and for a month: a live session may name it again.

Facts about SQLite that shape it:
- In WAL mode with synchronous=NORMAL a commit is a write and no fsync: it survives the death of this
  process at any moment, and a power cut may take the last rows but never damages the file.
- If two processes turn a new file to WAL mode at once, SQLite answers one of them `locked` without waiting.
- The file, its `-wal` and `-shm` take the permissions of the file: 0600 is set before SQLite sees it.
- A file in WAL mode can be read by a process that can make its `-shm`, or finds it there.
- Freed pages stay in the file and are used again. So the file stops growing, but gets no smaller: VACUUM
  would keep all other writers waiting.
"""

import _sqlite3 as sqlite3
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from msgspec import Struct

from pinfold.audit.tail_file import BUSY, STEP, TailRow

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    about INTEGER REFERENCES entries (id),
    data TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS entries_of_a_session ON entries (session, id);
"""
INSERT = "INSERT OR IGNORE INTO entries (id, at, session, kind, about, data) VALUES (?, ?, ?, ?, ?, ?)"
LAST = "SELECT coalesce(max(id), 0) FROM entries"


SPARE = 50
"""One part in so many of the size is freed at once, so that this is not done each time."""
A_ROW = 100
"""Bytes that a row takes beside its data, roughly."""
LIVES = 30 * 86400
USED = """SELECT (counted.page_count - free.freelist_count) * size.page_size
FROM pragma_page_count AS counted, pragma_freelist_count AS free, pragma_page_size AS size"""
OLDEST = "SELECT id, at, length(data) FROM entries WHERE id < (SELECT max(id) FROM entries) ORDER BY id"
FORGET = """DELETE FROM entries WHERE id <= ?1 AND (kind <> 'policy' OR at < ?2 AND id NOT IN (
    SELECT json_extract(data, '$.policy') FROM entries
    WHERE id > ?1 AND kind IN ('run', 'refused') AND json_valid(data)))"""


class Forgotten(Struct, frozen=True):
    """What was deleted to make room."""

    rows: int
    until: float
    """When the newest deleted row was written."""


def keep(path: str, rows: Iterable[TailRow], size: int | None = None) -> Forgotten | None:
    """Adds rows, all or none, and skips those that are there already.

    Beyond `size` bytes it deletes the oldest rows, and returns what it deleted.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    values = ((row.id, row.at, row.session, row.kind, row.about, bytes(row.data).decode()) for row in rows)
    with _connected(path) as connection:
        _turn_to_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, values)
        connection.execute("COMMIT")
        return None if size is None else make_room(connection, size)


def last(path: str) -> int:
    """The highest number in the table; 0 if there is none."""
    with opened(path) as connection:
        return int(connection.execute(LAST).fetchone()[0]) if connection else 0


@contextmanager
def opened(path: str, mode: str = "ro") -> Iterator[sqlite3.Connection | None]:
    """Opens the table; None if nothing was ever kept: an empty file stays if its first page found no room."""
    try:
        is_begun = os.stat(path).st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        is_begun = False
    if not is_begun:
        yield None
        return
    from urllib.parse import quote

    with _connected(f"file:{quote(path)}?mode={mode}", uri=True) as connection:
        yield connection


@contextmanager
def _connected(name: str, uri: bool = False) -> Iterator[sqlite3.Connection]:
    """Opens a connection; errors of SQLite are raised as OSError."""
    try:
        with closing(sqlite3.connect(name, uri=uri, timeout=BUSY, isolation_level=None)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def _turn_to_wal(connection: sqlite3.Connection) -> None:
    late = time.monotonic() + BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > late:
                raise
            time.sleep(STEP)


def make_room(connection: sqlite3.Connection, size: int) -> Forgotten | None:
    """Deletes the oldest rows beyond the size; None if there are none."""
    excess = connection.execute(USED).fetchone()[0] - size
    if excess <= 0:
        return None
    excess += size // SPARE
    last = None
    for number, at, length in connection.execute(OLDEST):
        last = number, at
        excess -= length + A_ROW
        if excess <= 0:
            break
    if last is None:
        return None
    gone = connection.execute(FORGET, (last[0], time.time() - LIVES)).rowcount
    return Forgotten(gone, last[1]) if gone else None
