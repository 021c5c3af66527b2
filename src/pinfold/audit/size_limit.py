"""How the journal stays within a size: the oldest rows go, and the next ones take their pages.

INVARIANT: the last row stays, so that no number is given out twice. A policy stays while a row that is left
names it, and for a month: a session that is alive may name it again.

Facts about SQLite: pages that are freed stay in the file and are used again. So the file stops growing, but
gets no smaller: VACUUM would keep all others waiting that have something to write.
"""

import _sqlite3 as sqlite3
import time

from msgspec import Struct

SPARE = 50
"""Of the size, one part in so many is made free at once, so that this is not done each time."""
A_ROW = 100
"""Bytes that a row takes beside its data, more or less."""
LIVES = 30 * 86400
USED = """SELECT (counted.page_count - free.freelist_count) * size.page_size
FROM pragma_page_count AS counted, pragma_freelist_count AS free, pragma_page_size AS size"""
OLDEST = "SELECT id, at, length(data) FROM entries WHERE id < (SELECT max(id) FROM entries) ORDER BY id"
FORGET = """DELETE FROM entries WHERE id <= ?1 AND (kind <> 'policy' OR at < ?2 AND id NOT IN (
    SELECT json_extract(data, '$.policy') FROM entries
    WHERE id > ?1 AND kind IN ('run', 'refused') AND json_valid(data)))"""


class Forgotten(Struct, frozen=True):
    """What went to make room."""

    rows: int
    until: float
    """When the youngest of it was written."""


def make_room(connection: sqlite3.Connection, size: int) -> Forgotten | None:
    """Frees what is beyond the size; None if that is nothing."""
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
