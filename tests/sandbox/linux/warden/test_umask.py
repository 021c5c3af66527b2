"""Umasks of other processes."""

import os

import pytest
from tests.kernel.child import in_child

from pinfold.sandbox.linux.warden.caller_state import CALLERS, MOST_CHANGING, CallerUmasks, parse_umask


def waiting(umask: int) -> tuple[int, int]:
    """A child with this umask, and a descriptor whose closing ends it."""
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


def test_a_umask_is_adopted_and_open_files_are_bounded() -> None:
    def action() -> list[int]:
        umasks = CallerUmasks(os.open("/proc", os.O_PATH))
        found = []
        for umask in (0o077, 0o002, 0o077, *(0o1 for _ in range(CALLERS + 5))):
            pid, end = waiting(umask)
            for _ in range(2):
                umasks.adopt(pid)
                found.append(os.umask(umasks.current))
            os.close(end)
            os.waitpid(pid, 0)
        assert len(umasks.status) <= CALLERS
        return found[:6]

    assert in_child(action) == [0o077, 0o077, 0o002, 0o002, 0o077, 0o077]


def test_an_ended_thread_has_no_umask() -> None:
    def action() -> None:
        umasks = CallerUmasks(os.open("/proc", os.O_PATH))
        pid, end = waiting(0o077)
        umasks.adopt(pid)
        os.close(end)
        os.waitpid(pid, 0)
        umasks.adopt(pid)

    with pytest.raises(OSError, match="No such"):
        in_child(action)


def test_a_umask_is_read_again_once_it_may_have_changed() -> None:
    def action() -> list[int]:
        pid, end = waiting(0o027)
        read: list[int] = []

        class Counted(CallerUmasks):
            def _read(self, thread: int) -> bytes:
                read.append(thread)
                return super()._read(thread)

        umasks = Counted(os.open("/proc", os.O_PATH), hears_changes=True)
        found: list[int] = []

        def adopt(*threads: int) -> None:
            read.clear()
            for thread in threads:
                umasks.adopt(thread)
            found.append(len(read))

        here = os.getpid()
        adopt(pid, here)  # no process has changed one since the pen began
        umasks.note_change(here, 0o022)
        umasks.changing.clear()
        adopt(pid, pid, pid)  # known for a moment
        adopt(here, pid, here)  # only the last one stays known
        umasks.until = 0.0
        adopt(here, here)  # the moment is over
        umasks.note_change(pid, 0o077)
        adopt(here, here)  # it may share ours, and not have it yet
        adopt(pid, pid)  # it has it by now
        umasks.note_change(pid, 0o077)
        umasks.changing[pid] = 0.0
        adopt(here, here)  # it surely has it
        os.close(end)
        os.waitpid(pid, 0)
        return found

    assert in_child(action) == [0, 1, 3, 1, 2, 1, 1]


def test_noted_changes_are_dropped_again() -> None:
    """Each thread of a program may change its own umask once and then make nothing."""

    def action() -> int:
        umasks = CallerUmasks(os.open("/proc", os.O_PATH), hears_changes=True)
        for thread in range(10 * MOST_CHANGING):
            umasks.note_change(thread, 0o022)
            umasks.changing[thread] = 0.0
        return len(umasks.changing)

    assert in_child(action) <= MOST_CHANGING


def test_without_notes_of_changes_each_umask_is_read() -> None:
    def action() -> list[int]:
        umasks = CallerUmasks(os.open("/proc", os.O_PATH))
        found = []
        for mask in (0o022, 0o077, 0o002):
            os.umask(mask)
            umasks.current = -1
            umasks.adopt(os.getpid())
            found.append(umasks.current)
        return found

    assert in_child(action) == [0o022, 0o077, 0o002]


def test_too_many_changes_are_still_waited_for() -> None:
    """None of them is surely done, so what is read meanwhile is not kept."""

    def action() -> tuple[bool, bool, bool]:
        umasks = CallerUmasks(os.open("/proc", os.O_PATH), hears_changes=True)
        for thread in range(10 * MOST_CHANGING):
            umasks.note_change(-thread, 0o022)
        kept = len(umasks.changing)
        end = max(umasks.changing.values())
        umasks.adopt(os.getpid())
        return kept <= MOST_CHANGING, umasks.until == 0.0, end == max(umasks.changing.values())

    assert in_child(action) == (True, True, True)


def test_the_umask_field_is_found_anywhere() -> None:
    assert parse_umask(b"Name:\tUmask\nUmask:\t0027\nState:\tR\n") == 0o027


def test_a_threads_name_is_not_taken_for_the_umask_field() -> None:
    assert parse_umask(b"Name:\tUmask:\t0000\nUmask:\t0027\nState:\tR\n") == 0o027
