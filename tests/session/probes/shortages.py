"""What holds of a session where the system has no more of something: each function runs in a child, as root
and as another user."""

import gc
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pinfold
from tests.patience import wait_until
from tests.probe_module import probes_of, run
from tests.session.probes.run import Says, journal, opened

OUTSIDE = {"network": {"access": "rules", "allow": ["a.test"]}}
REACHES_OUT = (
    "exec 3<>/dev/tcp/198.18.0.1/3128; printf 'GET http://b.test/ HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
)
"""To the proxy that each pen has: the gate is wanted then."""


def without_a_lookout_nothing_is_run_and_the_session_ends_as_ever() -> None:
    """A later command would find one that never began, and what the host makes would be held by nobody."""
    with opened() as session:
        with _no_thread("pinfold-lookout"):
            for _ in range(2):
                assert "no more threads" in _failure(session, "true")
        assert session.run("true").exit_code == 0
        watches = session.sandboxes._lookout.thread
        assert watches and watches.is_alive()
    with _no_thread("pinfold-lookout"):
        session = opened()
        _failure(session, "true")
        session.close()
    assert [entry.kind for entry in journal()] == ["run", "end"] * 4


def without_who_hears_of_it_nothing_is_run() -> None:
    """Neither calls that wait for a person nor the doorbell of a gate that is not there would be heard."""
    for name in ("pinfold-hear", "pinfold-doorbell"):
        with opened(OUTSIDE, approvers=[Says(pinfold.Answer.NO)]) as session:
            with _no_thread(name):
                for _ in range(2):
                    assert "no more threads" in _failure(session, "true"), name
            answered = session.run(REACHES_OUT, timeout=20)
            assert "b.test" in answered.stdout, (name, answered)
    assert threading.enumerate() == [threading.main_thread()]


def what_nobody_drains_is_nobody_elses_trouble() -> None:
    with opened() as session:
        with _no_thread("pinfold-drain"):
            assert session.run("echo out; (sleep 548; echo late) &").stdout == "out\n"
        assert session.run("echo out; (sleep 549; echo late) &").stdout == "out\n"
    assert [entry.kind for entry in journal()] == ["run", "end"] * 2


def a_gate_that_cannot_be_started_is_a_no() -> None:
    """Whoever wants out is told so at once, and does not wait."""
    with opened(OUTSIDE) as session:
        with _no_thread("pinfold-gate"):
            assert not session.run(REACHES_OUT, timeout=20).timed_out
        assert any("the gate could not be started" in notice for notice in session.notices)
    with opened(OUTSIDE) as session:
        session.run("true")
        execution = session.start(f"read go; {REACHES_OUT}", timeout=20, terminal=(24, 80))
        with _descriptors_left(0):
            execution.write(b"\n")
            assert not execution.wait().timed_out
        assert any("the gate could not be started" in notice for notice in session.notices)


def who_has_no_more_descriptors_is_told_and_leaves_none_open() -> None:
    with opened(OUTSIDE) as session:
        session.run("true")
    before, told = _descriptors(), set[str]()
    for left in range(20):
        session = opened(OUTSIDE, approvers=[Says(pinfold.Answer.NO)])
        with _descriptors_left(left):
            told.add(_failure(session, "true"))
            session.close()
    assert "" in told and any("the sandbox could not be built" in failure for failure in told), told
    wait_until(lambda: _descriptors() == before)
    # And what could not be had for one pen can for the next.
    with opened(OUTSIDE) as session:
        for left in range(20):
            with _descriptors_left(left):
                _failure(session, "true")
            with suppress(pinfold.PinfoldError):
                session.sandboxes.sandboxed().close_idle(1e-9)  # type: ignore[attr-defined]
        assert "b.test" in session.run(REACHES_OUT, timeout=20).stdout


def commands_that_nobody_followed_leave_no_descriptor_open() -> None:
    with opened() as session:
        session.run("true")
    before = _descriptors()
    with opened() as session:
        for line in ("true", "yes", "sleep 555"):
            session.start(line, stdin=b"x" * 1_000_000)
        session.start("sleep 555").cancel()
        session.start("sleep 555", terminal=(24, 80))
        kept = session.start("echo kept")
    assert kept.wait().exit_code == 0 or kept.wait().cancelled
    del kept
    assert _descriptors() == before
    assert [entry.kind for entry in journal()].count("end") == 7


def _failure(session: pinfold.Session, line: str) -> str:
    try:
        return session.run(line).refusal
    except pinfold.PinfoldError as error:
        assert "\n" not in str(error)
        return str(error)


@contextmanager
def _no_thread(name: str) -> Iterator[None]:
    """None of this name can be started."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextmanager
def _descriptors_left(left: int) -> Iterator[None]:
    """This process can open so many more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    held: list[int] = []
    with suppress(OSError):
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    for _ in range(left):
        os.close(held.pop())
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def _descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


RUNS = probes_of(globals())

if __name__ == "__main__":
    run(globals())
