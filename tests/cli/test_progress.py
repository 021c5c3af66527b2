"""What takes long is told once, to a person who waits for it."""

import io
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import pinfold
from pinfold.approval.terminal_turn import Turn
from pinfold.cli import run
from pinfold.model.decision import Verdict


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nobody_else_has_the_timer() -> Iterator[None]:
    """The time limit of tests may be that timer too."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left)


def ring() -> None:
    """As if it had taken that long."""
    signal.raise_signal(signal.SIGALRM)


def test_it_is_told_what_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", screen := Screen())
    with run.progress_notes(("/usr",), Turn()):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        ring()
    assert screen.getvalue().startswith("pinfold: searching /usr for")
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_it_is_told_which_hook_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 5\n")
    slow.chmod(0o755)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    monkeypatch.setattr(run, "PATIENCE", 0.2)
    hooks = {"before_command": [str(slow)], "timeout": "1s"}
    session = pinfold.Session([str(tmp_path)], settings={"hooks": hooks})
    with session, run.progress_notes(("/usr",), Turn()):
        assert session.check("true").verdict is Verdict.DENY
        ring()
    waited, looked = screen.getvalue().splitlines()
    assert waited.startswith(f"pinfold: waiting for `{slow}`")
    assert looked.startswith("pinfold: searching /usr for")


def test_a_question_is_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", screen := Screen())
    turn = Turn()
    with turn, run.progress_notes(("/usr",), turn):
        ring()
    assert not screen.getvalue()


def test_programs_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with run.progress_notes(("/usr",), Turn()):
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
