"""All rows of the journal but the newest: a table of SQLite's, which anybody can ask.

Facts about SQLite that shape it:
- In WAL mode with synchronous=NORMAL a commit is a write and no fsync: it survives the death of this
  process at any moment, and a power cut may take the last rows but never damages the file.
- Of two that turn a new file to WAL mode at once, one is told at once that it is locked, and not waited with.
- The file, its `-wal` and `-shm` take the permissions of the file: 0600 is set before SQLite sees it.
- A file in WAL mode can be read by whoever can make its `-shm`, or finds it there.
"""

import _sqlite3 as sqlite3  # without the dates and times that `sqlite3` brings along, and 1 ms
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from pinfold.audit.size_limit import Forgotten, make_room
from pinfold.audit.tail_file import BUSY, STEP, Line

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


def keep(path: str, rows: Iterable[Line], size: int | None = None) -> Forgotten | None:
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
    """The highest number in it; 0 if there is none."""
    with opened(path) as connection:
        return int(connection.execute(LAST).fetchone()[0]) if connection else 0


@contextmanager
def opened(path: str, mode: str = "ro") -> Iterator[sqlite3.Connection | None]:
    """None where nothing was ever kept: if there was no room for its first page, an empty file stays."""
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
    """What SQLite has to complain of is raised as OSError."""
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
