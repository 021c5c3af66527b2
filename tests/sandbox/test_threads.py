"""Threads that do what they are given."""

import threading

import pytest

from pinfold.sandbox.threads import Workers
from tests.patience import PATIENCE, wait_until


def test_there_are_as_many_as_there_is_to_do_and_the_rest_waits() -> None:
    workers, go, done = Workers("test", 2), threading.Event(), threading.Semaphore(0)
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        go.wait(PATIENCE)
        done.release()

    for number in range(5):
        workers.give(lambda number=number: job(number))  # type: ignore[misc]
        assert workers.threads == min(number + 1, 2)
    assert len(begun) <= 2
    go.set()
    assert all(done.acquire(timeout=PATIENCE) for _ in range(5))
    assert sorted(begun) == [0, 1, 2, 3, 4]
    workers.close()


def test_what_fails_does_not_end_who_does_the_next() -> None:
    workers, done = Workers("test", 1), threading.Event()
    workers.give(lambda: [None][1])
    workers.give(done.set)
    assert done.wait(PATIENCE)
    workers.close()


def test_what_was_given_is_done_before_they_end() -> None:
    workers, go, done = Workers("test", 1), threading.Event(), threading.Event()
    workers.give(lambda: (go.wait(PATIENCE), None)[1])
    workers.give(done.set)
    workers.close()
    go.set()
    assert done.wait(PATIENCE)


def test_where_no_thread_can_be_had_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    workers = Workers("test", 1)
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", full)
        with pytest.raises(RuntimeError):
            workers.give(lambda: None)
    done = threading.Event()
    workers.give(done.set)
    assert done.wait(PATIENCE)
    workers.close()


def test_those_who_do_not_stay_end_when_there_is_nothing_to_do() -> None:
    workers, go, done = Workers("passing", 2, stay=False), threading.Event(), threading.Semaphore(0)

    def job() -> None:
        go.wait(PATIENCE)
        done.release()

    for _ in range(3):
        workers.give(job)
    assert workers.threads == 2
    go.set()
    assert all(done.acquire(timeout=PATIENCE) for _ in range(3))
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "pinfold-passing"])
    workers.give(done.release)
    assert done.acquire(timeout=PATIENCE)
