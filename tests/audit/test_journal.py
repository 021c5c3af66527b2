"""The journal: rows stay, several may write, and what cannot be written is told."""

import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pinfold.audit import Journal, JournalEntry, JournalError
from pinfold.audit.archive import INSERT
from pinfold.audit.history import entries, has
from pinfold.audit.tail_file import HEAD_SIZE
from pinfold.model.errors import PinfoldError


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "journal.sqlite")
    with Journal(path) as journal:
        first = journal.append("a", "run", {"command": "\udcff\n", "list": ["x", 1, None]})
        journal.append("b", "end", {"exit_code": 0}, about=first)
    for _ in range(2):
        rows = entries(path)
        assert [row.kind for row in rows] == ["run", "end"] and rows[1].about == first
        assert rows[0].data == {"command": "\\udcff\n", "list": ["x", 1, None]}
        assert [row.session for row in entries(path, "b")] == ["b"]
        with Journal(path) as journal:
            journal.settle()
    assert [os.stat(each).st_mode & 0o777 for each in (path, f"{path}.new")] == [0o600] * 2


def test_lines_are_moved_before_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinfold.audit.journal.LARGEST", 2000)
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        numbers = [journal.append("a", "run", {"n": n}) for n in range(100)]
        assert os.stat(f"{path}.new").st_size < 3000
        assert [row.id for row in entries(path)] == numbers == [*range(1, 101)]
        assert [row.data["n"] for row in entries(path)] == [*range(100)]


def test_half_a_line_is_none(tmp_path: Path) -> None:
    """As of one who was killed, or had no room."""
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        first = journal.append("a", "run", {"n": 1})
        with open(f"{path}.new", "ab") as file:
            file.write(b'{"id":2,"at":1,"session":"a","kind":"run","about":null,"data":{"n":' + b"9" * 500)
        assert [row.id for row in entries(path)] == [first]
        assert journal.append("a", "run", {"n": 2}) == first + 1
        assert [row.data["n"] for row in entries(path)] == [1, 2]
        journal.settle()
        assert [row.data["n"] for row in entries(path)] == [1, 2]


def test_half_of_the_first_line_is_none(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.sqlite")
    with open(f"{path}.new", "wb") as file:
        os.pwrite(file.fileno(), b'{"id":1,"at"', HEAD_SIZE)
    assert entries(path) == []
    with Journal(path) as journal:
        assert journal.append("a", "run", {"n": 1}) == 1
        assert [row.data["n"] for row in entries(path)] == [1]


def test_a_line_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """As a power cut may leave one."""
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        for n in range(3):
            journal.append("a", "run", {"n": n})
        lines = Path(f"{path}.new").read_bytes().split(b"\n")
        lines[2] = b"\0" * len(lines[2])
        Path(f"{path}.new").write_bytes(b"\n".join(lines))
        for _ in range(2):
            assert [row.data["n"] for row in entries(path)] == [0, 2]
            journal.settle()


def test_numbers_go_on_where_the_table_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        last = [journal.append("a", "run", {}) for _ in range(3)][-1]
        journal.settle()
    os.unlink(f"{path}.new")
    with Journal(path) as journal:
        assert journal.append("a", "run", {}) == last + 1


def test_what_comes_while_a_row_is_written_is_written_behind_it(tmp_path: Path) -> None:
    """Python may forget a run at any moment, whose end is told then."""
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        put = journal._lines.put

        def forgetting(entry: JournalEntry, end: int) -> int:
            journal._lines.put = put  # type: ignore[method-assign]
            journal.append("a", "end", {"n": 2})
            return put(entry, end)

        journal._lines.put = forgetting  # type: ignore[method-assign]
        assert journal.append("a", "run", {"n": 1}) == 1
        assert [(row.id, row.data["n"]) for row in entries(path)] == [(1, 1), (2, 2)]


def test_what_comes_before_a_row_is_written_is_written_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some Pythons forget between any two calls."""
    path = str(tmp_path / "journal.sqlite")
    journal = Journal(path)
    begin = journal._in_turn

    def forgetting(write: Callable[[], int]) -> int:
        monkeypatch.undo()
        with journal._lock:
            journal.append("a", "end", {"n": 1})
            return begin(write)

    monkeypatch.setattr(journal, "_in_turn", forgetting)
    writing = threading.Thread(target=journal.append, args=("a", "run", {"n": 2}), daemon=True)
    writing.start()
    writing.join(10)
    assert not writing.is_alive()
    assert [row.data["n"] for row in entries(path)] == [1, 2]
    journal.close()


def test_who_is_interrupted_lets_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinfold.audit.tail_file.BUSY", 0.01)
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal, Journal(path) as other:
        begin = journal._lines.begin

        def interrupted() -> None:
            begin()
            raise KeyboardInterrupt

        monkeypatch.setattr(journal._lines, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append("a", "run", {})
        assert other.append("a", "run", {}) == 1


def test_one_who_does_not_let_go_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.audit.tail_file.BUSY", 0.01)
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal, Journal(path) as other:
        other._lines.begin()
        with pytest.raises(JournalError, match="another process keeps it locked"):
            journal.append("a", "run", {})
        other._lines.end()
        journal.append("a", "run", {})


def test_a_policy_that_was_written_lately_is_not_written_again(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "journal.sqlite")) as journal:
        first = journal.append_policy("a", {"policy": 'x "kind":"policy"'})
        journal.append("a", "run", {"policy": "x"})
        assert journal.append_policy("b", {"policy": 'x "kind":"policy"'}) == first
        other = journal.append_policy("b", {"policy": "y"})
        assert other > first and journal.append_policy("c", {"policy": 'x "kind":"policy"'}) > other
        last = journal.append("c", "run", {"command": '"kind":"policy"'})
        journal.settle()
        assert journal.append_policy("c", {"policy": "y"}) > last


def test_the_page_about_it_asks_what_it_can_answer(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/journal.md").read_text()
    path = str(tmp_path / "journal.sqlite")
    with Journal(path) as journal:
        run = journal.append("a", "run", {"command": "make"})
        journal.append("a", "connect", {"host": "x.example", "verdict": "deny"}, about=run)
        journal.settle()
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
        numbers = [row.id for row in entries(path)]
        assert numbers == [*range(1, 301)]


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


@pytest.mark.parametrize("kind", ["fifo", "null", "zero"])
def test_lines_that_nobody_keeps_are_not_written(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "journal.sqlite")
    try:
        if kind == "fifo":
            os.mkfifo(f"{path}.new")
        else:
            os.mknod(f"{path}.new", 0o600 | stat.S_IFCHR, os.stat(f"/dev/{kind}").st_rdev)
    except PermissionError:
        pytest.skip("only root can make devices")
    with pytest.raises(PinfoldError, match="cannot be read"):
        entries(path)
    with Journal(path) as journal, pytest.raises(JournalError, match="so nothing is run"):
        journal.append("a", "run", {})


def test_one_that_is_closed_writes_nowhere(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal.sqlite"))
    journal.close()
    with open(tmp_path / "other", "w+b") as other:  # which has its number
        journal.close()
        with pytest.raises(JournalError, match="the journal is closed"):
            journal.append("a", "run", {})
        assert other.read() == b""


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
    path = str(tmp_path / "journal")
    with Journal(path) as journal:
        journal.append("kept", "run", {})
        journal.settle()
        journal.append("new", "run", {})
    with closing(sqlite3.connect(path, isolation_level=None)) as table:
        table.execute(INSERT, (99, 1e308, "torn", "run", 99, '{"a":'))
        assert [has(path, each) for each in ("kept", "new", "torn", "other")] == [True, True, True, False]
        table.execute("DROP TABLE entries")
        with pytest.raises(PinfoldError, match="no such table"):
            has(path, "kept")
