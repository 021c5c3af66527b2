"""The journal: rows stay, several may write, and what cannot be written is told."""

import os
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pinfold.audit import Journal, JournalError
from pinfold.audit.journal import INSERT


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "journal.sqlite")
    with Journal(path) as journal:
        first = journal.append("a", "run", {"command": "\udcff\n", "list": ["x", 1, None]})
        journal.append("b", "end", {"exit_code": 0}, about=first)
    with Journal(path) as journal:
        rows = list(journal.entries())
        assert [row.kind for row in rows] == ["run", "end"] and rows[1].about == first
        assert rows[0].data == {"command": "\\udcff\n", "list": ["x", 1, None]}
        assert [row.session for row in journal.entries("b")] == ["b"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_what_was_said_lately_is_not_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinfold.audit.journal.NEAR", 5)
    with Journal(str(tmp_path / "journal.sqlite")) as journal:
        first = journal.append_new("a", "policy", {"policy": "x"})
        journal.append("a", "run", {"policy": "x"})
        assert journal.append_new("b", "policy", {"policy": "x"}) == first
        other = journal.append_new("b", "policy", {"policy": "y"})
        assert other > first and journal.append_new("c", "policy", {"policy": "x"}) > other
        last = [journal.append("c", "run", {}) for _ in range(5)][-1]
        assert journal.append_new("c", "policy", {"policy": "x"}) > last


def test_the_page_about_it_asks_what_it_can_answer(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/journal.md").read_text()
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        run = journal.append("a", "run", {"command": "make"})
        journal.append("a", "connect", {"host": "x.example", "verdict": "deny"}, about=run)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            ran, hosts = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
            assert [row[1:] for row in reader.execute(ran)] == [("run", "make")]
            assert [*reader.execute(hosts)] == [("x.example", "deny", 1)]


def test_threads_and_processes_write_to_one(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.sqlite")
    program = (
        "import sys; from pinfold.audit import Journal\n"
        "with Journal(sys.argv[1]) as journal:\n"
        "    for n in range(100): journal.append('other', 'run', {'n': n})\n"
    )
    with Journal(path) as journal:
        other = subprocess.Popen([sys.executable, "-c", program, path])
        threads = [
            threading.Thread(target=lambda: [journal.append("own", "run", {}) for _ in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert other.wait() == 0
        assert len(list(journal.entries())) == 300


@pytest.mark.parametrize("kind", ["directory", "garbage", "link"])
def test_a_journal_that_cannot_be_is_told_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "journal.sqlite"
    if kind == "directory":
        path.mkdir()
    elif kind == "garbage":
        path.write_bytes(b"this is no database" * 1000)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="so nothing is run") as raised:
        Journal(str(path))
    assert "\n" not in str(raised.value) and "[Errno" not in str(raised.value)
    assert not (tmp_path / "elsewhere").exists()


def test_two_who_begin_a_journal_at_once_both_have_it(tmp_path: Path) -> None:
    together = threading.Barrier(2)
    opened: list[int] = []

    def begin(number: int) -> None:
        together.wait()
        with Journal(str(tmp_path / f"{number}.sqlite")) as journal:
            opened.append(journal.append("s", "run", {}))

    for number in range(200):
        threads = [threading.Thread(target=begin, args=(number,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(opened) == 400


def test_a_damaged_row_is_still_of_its_session(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "journal")) as journal:
        journal.append("whole", "run", {})
        journal._connection.execute(INSERT, (1e308, "torn", "run", 99, '{"a":'))
        assert [journal.has(each) for each in ("whole", "torn", "other")] == [True, True, False]
        journal._connection.execute("DROP TABLE entries")
        with pytest.raises(JournalError, match="no such table"):
            journal.has("whole")
