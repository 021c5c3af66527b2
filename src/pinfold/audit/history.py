"""The journal read by a person: what happened last and how it ended, and how the oldest of it is forgotten.

INVARIANT: reading changes nothing, and forgetting leaves the last row: numbers are never given out twice, so
that no end is taken for another run's. Policies stay: a session that is alive names them by their number.

Facts about SQLite: a file in WAL mode can be read by whoever can make its `-shm`, or finds it there. VACUUM
wants the file for itself; what it cannot give back now is used by the next rows.
"""

import sqlite3
from contextlib import closing, suppress
from typing import Any
from urllib.parse import quote

from msgspec import Struct, json

from pinfold.audit.journal import BUSY, Entry
from pinfold.model.errors import PinfoldError

DEEDS = """SELECT id, at, session, kind, about, data FROM entries
WHERE kind NOT IN ('end', 'policy') AND session = coalesce(?, session) ORDER BY id DESC LIMIT ?"""
ENDS = "SELECT about, data FROM entries WHERE kind = 'end' AND id > ?"
FORGET = """DELETE FROM entries
WHERE kind <> 'policy' AND at < ? AND id < (SELECT max(id) FROM entries)"""
EVERY = -1


class Deed(Struct, frozen=True):
    """One thing that was done or refused."""

    entry: Entry
    end: dict[str, Any] | None
    """Of a run: how it ended, if that was written down."""


def deeds(path: str, most: int = EVERY, session: str | None = None) -> list[Deed]:
    """The last of them, of all sessions or of one; the newest last."""
    with closing(_opened(path, "ro")) as connection:
        try:
            rows = connection.execute(DEEDS, (session, most)).fetchall()[::-1]
            first = rows[0][0] if rows else 0
            ends = dict(connection.execute(ENDS, (first,)).fetchall()) if rows else {}
        except sqlite3.Error as error:
            raise PinfoldError(f"the journal {path} cannot be read: {error}") from None
    return [
        Deed(
            Entry(number, at, owner, kind, about, json.decode(data)),
            json.decode(ends[number]) if number in ends else None,
        )
        for number, at, owner, kind, about, data in rows
    ]


def forget(path: str, before: float) -> int:
    """How many rows from before that moment are gone; the file gets smaller, if nobody is in the way."""
    with closing(_opened(path, "rw")) as connection:
        try:
            gone = connection.execute(FORGET, (before,)).rowcount
        except sqlite3.Error as error:
            raise PinfoldError(f"the journal {path} cannot be changed: {error}") from None
        with suppress(sqlite3.Error):
            connection.execute("VACUUM")
    return gone


def _opened(path: str, mode: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"file:{quote(path)}?mode={mode}", uri=True, timeout=BUSY, isolation_level=None
        )
    except sqlite3.Error as error:
        raise PinfoldError(f"the journal {path} cannot be read: {error}") from None
