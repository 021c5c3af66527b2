"""Reads the journal for people: what happened last and how it ended. Also deletes its oldest rows.

INVARIANT: reading changes nothing, and deleting keeps the last row: numbers are never given out twice, so
that no end is taken for another run's. Policies stay: a live session names them by their number.

Facts about SQLite:
- VACUUM needs the file for itself; what it cannot give back now, the next rows use.
- In WAL mode a transaction sees the state at its first query all the time, and writers go on.
"""

import fcntl
from _sqlite3 import DatabaseError
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from msgspec import Raw, Struct, json

from pinfold.audit.archive import opened
from pinfold.audit.journal import Journal, JournalError
from pinfold.audit.tail_file import JournalEntry, TailFile, TailRow, storable
from pinfold.model.errors import PinfoldError

COLUMNS = "id, at, session, kind, about, data"
ALL = f"SELECT {COLUMNS} FROM entries WHERE session = coalesce(?, session) ORDER BY id"  # noqa: S608
DEEDS = f"""SELECT {COLUMNS} FROM entries
WHERE kind NOT IN ('end', 'policy') AND session = coalesce(?, session) ORDER BY id DESC LIMIT ?"""  # noqa: S608
ENDS = "SELECT about, data FROM entries WHERE kind = 'end' AND id > ?"
COMMANDS = """SELECT id, json_extract(data, '$.command') FROM entries
WHERE kind = 'run' AND id >= ? AND json_valid(data)"""
ANY = "SELECT 1 FROM entries LIMIT 1"
OF_A_SESSION = "SELECT 1 FROM entries WHERE session = ? LIMIT 1"
FORGET = """DELETE FROM entries
WHERE kind <> 'policy' AND at < ? AND id < (SELECT max(id) FROM entries)"""
EVERY = -1
NO_DEEDS = ("end", "policy")


class Action(Struct, frozen=True):
    """One thing that was done or refused."""

    entry: JournalEntry
    end: dict[str, Any] | None
    """How a run ended, if that was recorded."""
    command: str = ""
    """The command line of the run that it happened in, if that is still there."""


def entries(path: str, session: str | None = None) -> list[JournalEntry]:
    """Everything, or what belongs to one session, oldest first."""
    with _reading(path) as (ask, lines):
        kept = _by_number(map(_line, ask(ALL, session)))
        return [_entry(each) for each in (kept | _by_number(_of(lines, session))).values()]


def has(path: str, session: str) -> bool:
    """Whether it has any row of a session, readable or not."""
    with _reading(path) as (ask, lines):
        return any(_of(lines, session)) or bool(ask(OF_A_SESSION, session))


def actions(path: str, most: int = EVERY, session: str | None = None) -> list[Action]:
    """The last actions, of all sessions or of one; the newest last."""
    with _reading(path) as (ask, lines):
        kept = _by_number(map(_line, ask(DEEDS, session, most)[::-1]))
        new = _by_number(each for each in _of(lines, session) if each.kind not in NO_DEEDS)
        # Rows that are in both places may be older than the oldest one asked for.
        found = [row for _, row in sorted((kept | new).items())]
        found = found if most == EVERY else found[-most:]
        ends = dict(ask(ENDS, found[0].id)) if found else {}
        runs = {each.about for each in found if each.about}
        commands = dict(ask(COMMANDS, min(runs))) if runs else {}
    ends |= {each.about: each.data for each in lines if each.kind == "end"}
    commands |= {each.id: json.decode(each.data).get("command", "") for each in lines if each.id in runs}
    return [
        Action(
            _entry(each),
            json.decode(ends[each.id]) if each.id in ends else None,
            str(commands.get(each.about) or ""),
        )
        for each in found
    ]


def forget(path: str, before: float) -> int:
    """Deletes rows from before a moment; returns how many. The file shrinks if no other process uses it."""
    with _reading(path) as (ask, lines):
        if not lines and not ask(ANY):
            return 0
    try:
        with Journal(path) as journal:
            journal.settle()
        with opened(path, "rw") as table:
            if table is None:
                return 0
            gone = table.execute(FORGET, (before,)).rowcount
            with suppress(DatabaseError):
                table.execute("VACUUM")
            return gone
    except JournalError as error:
        raise PinfoldError(f"the journal {path} cannot be changed: {error.why}") from None
    except OSError as error:
        raise PinfoldError(f"the journal {path} cannot be changed: {error.strerror or error}") from None


Ask = Callable[..., list[Any]]


@contextmanager
def _reading(path: str) -> Iterator[tuple[Ask, list[TailRow]]]:
    """Queries to the table, and the lines, both as of one moment. Writers wait only until that moment."""
    try:
        with ExitStack() as until_the_end:
            with _still(path) as lines:
                table = until_the_end.enter_context(opened(path))
                if table:
                    table.execute("BEGIN")
                    table.execute(ANY).fetchone()

            def ask(query: str, *values: Any) -> list[tuple[Any, ...]]:
                texts = (storable(value) if isinstance(value, str) else value for value in values)
                return table.execute(query, tuple(texts)).fetchall() if table else []

            yield ask, lines
    except OSError as error:
        raise PinfoldError(f"the journal {path} cannot be read: {error.strerror or error}") from None


@contextmanager
def _still(path: str) -> Iterator[list[TailRow]]:
    """The lines, while no other process moves them."""
    try:
        lines = TailFile(path)
    except (FileNotFoundError, NotADirectoryError):
        yield []
        return
    try:
        lines.begin(fcntl.LOCK_SH)
        yield [*lines.rows()]
    finally:
        lines.close()


def _of(lines: Iterable[TailRow], session: str | None) -> Iterator[TailRow]:
    return (line for line in lines if session in (None, line.session))


def _by_number(rows: Iterable[TailRow]) -> dict[int, TailRow]:
    return {row.id: row for row in rows}


def _line(row: tuple[int, float, str, str, int | None, str]) -> TailRow:
    number, at, session, kind, about, data = row
    return TailRow(number, at, session, kind, about, Raw(data))


def _entry(row: TailRow) -> JournalEntry:
    return JournalEntry(row.id, row.at, row.session, row.kind, row.about, json.decode(row.data))
