"""Which threads `late_mounts.wait_for_lookups` waits for, and for how long: with a /proc made of files."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pinfold.sandbox.linux.warden import late_mounts


class Proc:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY)
        self.steps: list[Callable[[], None]] = []
        """What happens between two checks; after the last of them nothing does."""
        self.now = 0.0

    def put(self, thread: int, state: str, ran: int, *, filtered: bool = True) -> None:
        task = self.path / "7" / "task" / str(thread)
        task.mkdir(parents=True, exist_ok=True)
        (self.path / "7" / "status").write_text(f"Name:\tx\nSeccomp:\t{2 if filtered else 0}\nThreads:\t1\n")
        (task / "stat").write_text(f"{thread} (a) S (b) {state} 1 1 0")
        (task / "schedstat").write_text(f"{ran} 5 1\n")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()

    def is_quiet(self) -> bool:
        return late_mounts.wait_for_lookups(self.descriptor)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proc]:
    made = Proc(tmp_path)
    monkeypatch.setattr(late_mounts, "sleep", made.sleep)
    monkeypatch.setattr(late_mounts, "monotonic", lambda: made.now)
    yield made
    os.close(made.descriptor)


@pytest.mark.parametrize("state", ["S", "T", "t", "Z", "X", "D"])
def test_a_thread_that_does_not_run_is_not_waited_for(proc: Proc, state: str) -> None:
    proc.put(7, "S", 0)
    proc.put(8, state, 0)
    assert proc.is_quiet()


def test_a_thread_without_processor_time_is_waited_for(proc: Proc) -> None:
    proc.put(7, "S", 0)
    proc.put(8, "R", 1000)
    assert not proc.is_quiet()
    proc.put(8, "R", 1000, filtered=False)
    assert proc.is_quiet(), "nobody's who is fenced"


@pytest.mark.parametrize(
    ("turns", "quiet"),
    [
        ([("R", 1000 + late_mounts.ENOUGH)], True),
        ([("R", 999 + late_mounts.ENOUGH)], False),
        ([("R", 2000), ("S", 3000)], True),
        ([("D", 2000)], False),
        ([("D", 2000), ("R", 3000), ("R", 200_000)], True),
    ],
)
def test_a_thread_that_ran_or_sleeps_is_done(proc: Proc, turns: list[tuple[str, int]], quiet: bool) -> None:
    """A thread that waits for a lock is not done: it may still get the lock."""
    proc.put(8, "R", 1000)
    proc.steps = [lambda state=state, ran=ran: proc.put(8, state, ran) for state, ran in turns]  # type: ignore[misc]
    assert proc.is_quiet() is quiet


def test_an_ended_thread_is_done(proc: Proc) -> None:
    proc.put(8, "R", 1000)
    proc.steps = [lambda: (proc.path / "7" / "task" / "8" / "stat").unlink()]
    assert proc.is_quiet()
