"""What holds for every test."""

import fcntl
import os
import signal
import termios
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import settings

from pinfold.model import deadline
from pinfold.shell import shfmt
from tests.selection import builds_sandboxes

# A slow machine is not a failing test.
settings.register_profile("pinfold", deadline=None)
settings.register_profile("quick", parent=settings.get_profile("pinfold"), max_examples=20)
settings.load_profile("pinfold")
deadline.BUSY *= 20
shfmt.TIMEOUT *= 20

# Tests that are started with `&` or nohup ignore these, and so would what they start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_configure() -> None:
    """Programs that tests start do not ask at the terminal of the person who runs the tests.

    Facts (tty_ioctl(4)): TIOCNOTTY takes a process off its controlling terminal, and its later children with
    it. Ctrl-C still reaches its process group. Of a session leader it would hang up the whole session.
    """
    if os.getsid(0) != os.getpid():
        with suppress(OSError), open("/dev/tty") as terminal:
            fcntl.ioctl(terminal, termios.TIOCNOTTY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if builds_sandboxes(item.path):
            item.add_marker("sandbox")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """No letter for a skipped test: the end of the run says how many there are, and why."""
    if report.skipped and not hasattr(report, "wasxfail"):
        return "skipped", "", "SKIPPED"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, times in reasons.most_common():
        terminalreporter.write_line(f"skipped: {times} because {reason}")
