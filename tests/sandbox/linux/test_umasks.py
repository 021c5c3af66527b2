"""Umasks of other processes."""

import os

import pytest

from pinfold.sandbox.linux.umasks import CALLERS, Umasks, parse_umask
from tests.kernel.child import in_child


def waiting(umask: int) -> tuple[int, int]:
    """A child with this umask, and what ends it when it is closed."""
    out, into = os.pipe()
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(into)
        os.umask(umask)
        os.write(tell, b"x")
        os.read(out, 1)
        os._exit(0)
    os.close(out)
    os.read(ready, 1)
    return pid, into


def test_a_umask_is_taken_over_and_kept_callers_are_bounded() -> None:
    def action() -> list[int]:
        umasks = Umasks(os.open("/proc", os.O_PATH))
        found = []
        for umask in (0o077, 0o002, 0o077, *(0o1 for _ in range(CALLERS + 5))):
            pid, end = waiting(umask)
            for _ in range(2):
                umasks.take_over(pid)
                found.append(os.umask(umasks.current))
            os.close(end)
            os.waitpid(pid, 0)
        assert len(umasks.status) <= CALLERS
        return found[:6]

    assert in_child(action) == [0o077, 0o077, 0o002, 0o002, 0o077, 0o077]


def test_who_is_gone_has_none() -> None:
    def action() -> None:
        umasks = Umasks(os.open("/proc", os.O_PATH))
        pid, end = waiting(0o077)
        umasks.take_over(pid)
        os.close(end)
        os.waitpid(pid, 0)
        umasks.take_over(pid)

    with pytest.raises(OSError, match="No such"):
        in_child(action)


def test_the_field_is_found_wherever_it_stands() -> None:
    assert parse_umask(b"Name:\tUmask\nUmask:\t0027\nState:\tR\n") == 0o027
