"""The journal's size: the oldest rows go, and a row tells of it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pinfold.audit import Journal
from pinfold.audit.archive import INSERT
from pinfold.audit.history import actions, entries
from pinfold.audit.journal import FORGOTTEN, LARGEST

SIZE = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal.sqlite")


def on_disk(path: str) -> int:
    return sum(
        os.path.getsize(path + each) for each in ("", "-wal", "-shm", ".new") if os.path.exists(path + each)
    )


def fill(journal: Journal, size: int, **data: object) -> list[int]:
    """Rows of so many bytes altogether."""
    return [journal.append("a", "run", {"command": "x" * 2000, **data}) for _ in range(size // 2000)]


def test_the_journal_is_bounded(path: str) -> None:
    with Journal(path, SIZE) as journal:
        sizes = []
        for _ in range(20):
            numbers = fill(journal, SIZE // 2)
            sizes.append(on_disk(path))
        assert max(sizes) < SIZE * 1.1 + 2 * LARGEST
        left = entries(path)
        assert left[-1].id == numbers[-1] and {*numbers[-100:]} <= {each.id for each in left}
        notes = [each for each in left if each.kind == FORGOTTEN]
        assert notes and all(each.data["rows"] > 0 for each in notes)
        assert [each.id for each in left] == list(range(left[0].id, left[-1].id + 1)), "no number is lost"
        assert "forgotten" in {each.entry.kind for each in actions(path)}


def test_without_a_size_nothing_goes(path: str) -> None:
    with Journal(path) as journal:
        numbers = fill(journal, 2 * SIZE)
        assert [each.id for each in entries(path)] == numbers


def test_a_policy_stays_while_it_is_young_or_named(path: str) -> None:
    with Journal(path, SIZE) as journal:
        old, named, young = (journal.append("a", "policy", {"n": n}) for n in range(3))
        journal.settle()
        with closing(sqlite3.connect(path, isolation_level=None)) as table:
            table.execute("UPDATE entries SET at = at - 40 * 86400 WHERE id IN (?, ?)", (old, named))
        fill(journal, 3 * SIZE, policy=named)
        left = {each.id for each in entries(path) if each.kind == "policy"}
        assert left == {named, young}


def test_the_last_row_stays_whatever_the_size(path: str) -> None:
    with Journal(path, 1) as journal:
        last = fill(journal, SIZE)[-1]
        journal.settle()
        assert entries(path)[-1].id == last
    with Journal(path, 1) as journal:
        assert journal.append("a", "run", {}) == last + 1


def test_a_damaged_row_is_no_hindrance(path: str) -> None:
    with Journal(path, SIZE) as journal:
        fill(journal, SIZE // 2)
        journal.settle()
        with closing(sqlite3.connect(path, isolation_level=None)) as table:
            table.execute(INSERT, (10**6, 0.0, "torn", "run", None, '{"a":'))
        fill(journal, 3 * SIZE)
        assert on_disk(path) < SIZE * 1.1 + 2 * LARGEST
