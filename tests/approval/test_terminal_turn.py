"""Who may ask at a terminal."""

import os
import subprocess
import sys

from pinfold.approval.terminal_turn import Turn
from tests.patience import PATIENCE

TWO = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from pinfold.approval.terminal_turn import Turn
one, other = Turn(), Turn()  # each has the terminal opened for itself, as two processes have
{and_then}
assert one.take(lambda: False)
assert other.take(lambda: True) is {is_free}
if {is_free}:
    other.give_up()
one.give_up()
with other:
    assert other.locked() and not one.locked()
    assert one.take(lambda: True) is {is_free}
"""


def _run(**how: object) -> None:
    ours, terminal = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", TWO.format(**how)],
            stdin=terminal,
            start_new_session=True,
            check=True,
            timeout=PATIENCE,
        )
    finally:
        os.close(ours)
        os.close(terminal)


def test_two_programs_at_one_terminal_ask_one_after_the_other() -> None:
    """As in `pinfold run a | pinfold run b`: a key would be taken for the other one's answer."""
    _run(and_then="", is_free=False)


def test_a_job_in_the_background_keeps_nobody_waiting() -> None:
    """It would be stopped while it has its turn."""
    away = "if pid := os.fork(): sys.exit(os.waitpid(pid, 0)[1])\nos.setpgid(0, 0)"
    _run(and_then=away, is_free=True)


def test_without_a_terminal_it_is_a_lock() -> None:
    turn = Turn()
    with turn:
        assert turn.locked() and not turn.take(lambda: True)
    assert turn.take(lambda: False)
    turn.give_up()
    assert not turn.locked()
