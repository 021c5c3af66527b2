"""What tests/conftest.py does for every test."""

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parent.parent
# The leader of a session with a terminal, as a login shell is, and the run of the tests that it starts.
LEADER = """
import fcntl, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.exit(subprocess.call([sys.executable, "-c", sys.argv[1]]))
"""
RUN = """
import subprocess, sys
from tests import conftest
open("/dev/tty").close()
conftest.pytest_configure()
sys.exit(subprocess.call(["sh", "-c", ": 2>/dev/null </dev/tty"]) == 0)
"""


def test_what_tests_start_finds_no_terminal_to_ask_at() -> None:
    window, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LEADER, RUN], stdin=terminal, cwd=TOP, start_new_session=True, check=False
        )
    finally:
        os.close(window)
        os.close(terminal)
    assert done.returncode == 0
