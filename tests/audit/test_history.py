"""The journal read: each run with its end, the newest last, and the oldest forgotten."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from pinfold.audit import Journal
from pinfold.audit.archive import keep
from pinfold.audit.history import ALL, _reading, actions, entries, forget, has
from pinfold.model.errors import PinfoldError


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a ?#%41" / "journal.sqlite")


def aged(path: str, days: float, *rows: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for row in rows:
            connection.execute("UPDATE entries SET at = at - ? WHERE id = ?", (days * 86400, row))


def test_runs_come_with_their_ends(path: str) -> None:
    with Journal(path) as journal:
        journal.append("a", "policy", {})
        first = journal.append("a", "run", {"command": "x"})
        second = journal.append("b", "run", {"command": "y"})
        journal.append("b", "end", {"exit_code": 1}, about=second)
        journal.append("b", "connect", {"host": "h"}, about=second)
        found = actions(path)
        assert [(each.entry.id, each.end) for each in found[:2]] == [
            (first, None),
            (second, {"exit_code": 1}),
        ]
        assert [each.entry.kind for each in found] == ["run", "run", "connect"]
        assert [each.entry.id for each in actions(path, 1)] == [found[2].entry.id]
        assert [each.entry.id for each in actions(path, session="a")] == [first]
        assert actions(path, session="c") == []


def test_forgetting_leaves_policies_and_numbers(path: str) -> None:
    with Journal(path) as journal:
        old = [journal.append("a", kind, {}) for kind in ("policy", "run", "end")]
        young = journal.append("a", "run", {})
        journal.settle()
        aged(path, 100, *old)
        assert forget(path, time.time() - 90 * 86400) == 2
        assert [row.id for row in entries(path)] == [old[0], young]
        assert forget(path, time.time() + 1) == 0, "the last row keeps its number from being given out again"
        assert journal.append("a", "end", {}, about=young) == young + 1


def test_the_file_gets_smaller(path: str) -> None:
    with Journal(path) as journal:
        for _ in range(50):
            journal.append("a", "run", {"command": "x" * 20_000})
        journal.settle()
    before = Path(path).stat().st_size
    assert forget(path, time.time() + 1) == 49
    assert Path(path).stat().st_size < before / 2


def test_what_is_no_journal_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "j")
    for name in ("j", "j.new"):
        (tmp_path / name).write_bytes(b"no journal" * 100)
        for attempt in (lambda: actions(path), lambda: has(path, "s"), lambda: forget(path, 0)):
            with pytest.raises(PinfoldError, match=r"the journal .* cannot be"):
                attempt()
        (tmp_path / name).write_bytes(b"")
        assert actions(path) == [] and not has(path, "s") and forget(path, 0) == 0


def test_what_is_in_both_places_is_told_once(path: str) -> None:
    """As of one who was killed between the two."""
    with Journal(path) as journal:
        run = journal.append("a", "run", {"n": 1})
        journal.append("a", "end", {"exit_code": 0}, about=run)
        lines = Path(path + ".new").read_bytes()
        journal.settle()
        Path(path + ".new").write_bytes(lines)
        journal.append("a", "run", {"n": 2})
        for _ in range(2):
            assert [each.kind for each in entries(path)] == ["run", "end", "run"]
            assert [each.entry.data["n"] for each in actions(path)] == [1, 2]
            assert actions(path)[0].end == {"exit_code": 0}
            journal.settle()


def test_the_last_are_the_last_though_they_are_in_both_places(path: str) -> None:
    """As of one who was killed between the two."""
    with Journal(path) as journal:
        for n in range(5):
            journal.append("a", "run", {"n": n})
        keep(path, journal._lines.rows())
    assert [each.entry.data["n"] for each in actions(path, 2)] == [3, 4]


def test_nobody_waits_for_who_reads(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does that one see what comes meanwhile, here or there."""
    monkeypatch.setattr("pinfold.audit.tail_file.BUSY", 0.01)
    with Journal(path) as journal:
        journal.append("a", "run", {"n": 1})
        journal.settle()
        journal.append("a", "run", {"n": 2})
        with _reading(path) as (ask, lines):
            journal.append("a", "run", {"n": 3})
            journal.settle()
            assert [row[0] for row in ask(ALL, None)] == [1] and [line.id for line in lines] == [2]
        assert [row.id for row in entries(path)] == [1, 2, 3]
