"""Where the relative paths of other processes start."""

import os
import threading
from pathlib import Path

from tests.kernel.child import in_child

from pinfold.kernel.files import AT_FDCWD
from pinfold.sandbox.linux.warden.caller_state import LINKS, CallerDirectories


def test_a_callers_directory_is_the_present_one(tmp_path: Path) -> None:
    def action() -> None:
        starts, me = CallerDirectories(os.open("/proc", os.O_PATH)), os.getpid()
        one, two = os.fsencode(tmp_path / "one"), os.fsencode(tmp_path / "two")
        os.mkdir(one)
        os.chdir(one)
        held = os.open(one, os.O_PATH)
        for base in (AT_FDCWD, held):
            assert [starts.path(me, base) for _ in range(2)] == [one, one]
        os.rename(one, two)
        os.mkdir(one)
        assert starts.path(me, AT_FDCWD) == starts.path(me, held) == two
        os.chdir(one)
        assert (starts.path(me, AT_FDCWD), starts.path(me, held)) == (one, two)
        os.dup2(os.open("/usr", os.O_PATH), held)
        assert starts.path(me, held) == b"/usr"
        os.rmdir(one)
        assert starts.path(me, AT_FDCWD) == b""
        os.mkdir(one + b" (deleted)")
        assert starts.path(me, AT_FDCWD) == b""
        os.close(held)
        assert starts.path(me, held) == starts.path(me, 999) == b""
        held = os.dup2(os.open(two, os.O_PATH), held)
        assert starts.path(me, held) == two

    in_child(action)


def test_an_ended_thread_has_no_directory_and_links_are_bounded() -> None:
    def action() -> None:
        starts = CallerDirectories(os.open("/proc", os.O_PATH))
        for _ in range(LINKS + 5):
            known, end = threading.Event(), threading.Event()

            def wait(known: threading.Event = known, end: threading.Event = end) -> None:
                known.set()
                end.wait(20)

            thread = threading.Thread(target=wait)
            thread.start()
            known.wait(20)
            assert starts.path(thread.native_id or 0, AT_FDCWD) == os.fsencode(os.getcwd())
            assert len(starts.links) <= LINKS
            end.set()
            thread.join()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert starts.path(pid, AT_FDCWD) == b""
        os.waitpid(pid, 0)
        assert starts.path(pid, AT_FDCWD) == b""

    in_child(action)
