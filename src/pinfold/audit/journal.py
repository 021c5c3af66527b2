"""The journal: one row for each thing that is about to happen, and one for how it ended.

INVARIANT: a row is committed before what it tells of is done, and none is ever changed. What cannot be
journaled is not done.

Facts about SQLite that shape it:
- In WAL mode with synchronous=NORMAL a commit is a write and no fsync: it survives the death of this
  process at any moment, and a power cut may take the last rows but never damages the file.
- One connection may serve many threads if they take turns; other processes wait `BUSY` seconds for theirs.
- Of two that turn a new file to WAL mode at once, one is told at once that it is locked, and not waited with.
- The file, its `-wal` and `-shm` take the permissions of the file: 0600 is set before SQLite sees it.
"""

import _sqlite3 as sqlite3  # without the dates and times that `sqlite3` brings along, and 1 ms
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

from msgspec import Struct, json, to_builtins

from pinfold.model.errors import PinfoldError

BUSY = 5.0
STEP = 0.01
ELSEWHERE = "make room, set its directory right, or name another one in XDG_STATE_HOME"
"""What helps where nothing can be written down."""
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
INSERT = "INSERT INTO entries (at, session, kind, about, data) VALUES (?, ?, ?, ?, ?)"
OF_A_SESSION = "SELECT 1 FROM entries WHERE session = ? LIMIT 1"
LATE = """SELECT id, data FROM entries
WHERE id > (SELECT max(id) FROM entries) - ? AND kind = ? ORDER BY id DESC LIMIT 1"""
NEAR = 1000
"""Rows that are looked through for one that says the same: whoever begins a session waits for it."""


class JournalError(PinfoldError):
    """The journal cannot be written, so nothing is done."""

    def __init__(self, path: str, why: object) -> None:
        super().__init__(f"the journal {path} cannot be written, so nothing is run: {why}; {ELSEWHERE}")
        self.why = str(why)


class Entry(Struct, frozen=True):
    id: int
    at: float
    """Seconds since 1970."""
    session: str
    kind: str
    """run, refused, end, connect, elevation, file, policy, trouble."""
    about: int | None
    """The entry that this one is the end of."""
    data: dict[str, Any]


class Journal:
    """Append-only. Any number of threads may share one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.RLock()  # a row may come while one is written: of what Python then forgets
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            self._connection = sqlite3.connect(
                path, timeout=BUSY, isolation_level=None, check_same_thread=False
            )
            _turn_to_wal(self._connection)
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise self._trouble(error) from None

    def append(self, session: str, kind: str, data: Mapping[str, object], about: int | None = None) -> int:
        """Commits one row; its number."""
        text = _as_json(data)
        try:
            with self._lock:
                row = self._connection.execute(INSERT, (time.time(), session, kind, about, text)).lastrowid
        except sqlite3.Error as error:
            raise self._trouble(error) from None
        return row or 0

    def append_new(self, session: str, kind: str, data: Mapping[str, object]) -> int:
        """The same, unless a late row of this kind says just that: then its number, whoever wrote it."""
        text = _as_json(data)
        try:
            with self._lock:
                found = self._connection.execute(LATE, (NEAR, kind)).fetchone()
        except sqlite3.Error as error:
            raise self._trouble(error) from None
        return int(found[0]) if found and found[1] == text else self.append(session, kind, data)

    def entries(self, session: str | None = None) -> Iterator[Entry]:
        """Everything, or what belongs to one session, oldest first."""
        where, values = ("WHERE session = ?", (session,)) if session is not None else ("", ())
        query = f"SELECT id, at, session, kind, about, data FROM entries {where} ORDER BY id"  # noqa: S608
        with self._lock:
            rows = self._connection.execute(query, values).fetchall()
        for number, at, owner, kind, about, data in rows:
            yield Entry(number, at, owner, kind, about, json.decode(data))

    def has(self, session: str) -> bool:
        """Whether it has anything of a session, readable or not."""
        try:
            with self._lock:
                return self._connection.execute(OF_A_SESSION, (session,)).fetchone() is not None
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _trouble(self, error: Exception) -> JournalError:
        return JournalError(self.path, getattr(error, "strerror", None) or error)


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


def _as_json(data: Mapping[str, object]) -> str:
    try:
        return json.encode(data, enc_hook=str).decode()
    except UnicodeEncodeError:
        return json.encode(_spelled_out(to_builtins(data, enc_hook=str))).decode()


def _spelled_out(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_spelled_out(key): _spelled_out(each) for key, each in value.items()}
    return [_spelled_out(each) for each in value] if isinstance(value, list | tuple) else value


def storable(text: str) -> str:
    """A text without lone surrogates, which stand for bytes that were not UTF-8: those are spelled out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
