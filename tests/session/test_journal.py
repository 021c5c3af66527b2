"""What a session writes down, by several threads at once."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinfold.audit import JournalEntry
from pinfold.audit.history import entries
from pinfold.session.journal import CANCELLED, Ledger
from tests.patience import wait_until

LONG = 10.0


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Of a session with two runs under way."""
    made = Ledger("s", (str(tmp_path),), {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    for run in (1, 2):
        made._under_way[run] = lambda: None
    yield made


def ends(ledger: Ledger) -> list[int]:
    return sorted(row.about or 0 for row in entries(ledger.journal.path) if row.kind == "end")


def test_who_forgets_a_run_while_it_writes_waits_for_nobody_who_waits_for_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = ledger.journal._lines.put
    waits = threading.Event()
    ending = threading.Thread(target=ledger.after, args=(1, CANCELLED), daemon=True)

    def forgetting(entry: JournalEntry, end: int) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(ledger.journal, "_in_turn", lambda write: waits.set() or in_turn(write))  # type: ignore[func-returns-value]
        ending.start()
        assert waits.wait(LONG)
        ledger.after(2, CANCELLED)
        put(entry, end)

    in_turn = ledger.journal._in_turn
    monkeypatch.setattr(ledger.journal._lines, "put", forgetting)
    writing = threading.Thread(target=ledger.trouble, args=("x",), daemon=True)
    writing.start()
    for thread in (writing, ending):
        thread.join(LONG)
        assert not thread.is_alive()
    assert ends(ledger) == [1, 2]
    ledger.close()


def test_who_closes_waits_until_an_end_is_written(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    is_taken, goes_on = threading.Event(), threading.Event()
    write = ledger._try

    def late(kind: str, data: dict[str, object], about: int | None) -> bool:
        is_taken.set()
        assert goes_on.wait(LONG)
        return write(kind, data, about)

    monkeypatch.setattr(ledger, "_try", late)
    ending = threading.Thread(target=ledger.after, args=(1, CANCELLED))
    ending.start()
    assert is_taken.wait(LONG)
    closing = threading.Thread(target=ledger.close)
    closing.start()
    wait_until(lambda: ledger._told is not None)
    assert closing.is_alive() and not ends(ledger)
    goes_on.set()
    ending.join()
    closing.join()
    assert ends(ledger) == [1] and not ledger.troubles
