"""Callers are pinned to the warden's processor for a moment, and free again afterwards. A caller here is a
child that sleeps."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from tests.kernel.child import in_child

from pinfold.kernel import fast_calls
from pinfold.sandbox.linux.warden.affinity import LATE, SKIPPED, CallerAffinity

EVERY = os.sched_getaffinity(0)
pytestmark = pytest.mark.skipif(len(EVERY) < 2, reason="one processor needs no turns")


@pytest.fixture
def caller(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr("pinfold.sandbox.linux.warden.affinity.monotonic", lambda: 0.0)
    child = subprocess.Popen(["sleep", "60"])
    yield child.pid
    child.kill()
    child.wait()


def both(caller: int) -> tuple[set[int], set[int]]:
    return os.sched_getaffinity(caller), os.sched_getaffinity(0)


def test_caller_and_warden_are_pinned_and_unpinned(caller: int) -> None:
    def action() -> list[object]:
        affinity = CallerAffinity()
        affinity.unpin(caller, affinity.pin(caller))
        kept = affinity.pin(caller)
        near = both(caller)
        affinity.unpin(caller, kept)
        free = both(caller)
        affinity.unpin_self()
        return [near[0] == near[1] and len(near[0]) == 1, free == (EVERY, near[1]), both(caller)]

    assert in_child(action) == [True, True, (EVERY, EVERY)]


def test_the_warden_stays_pinned_only_while_calls_follow_each_other(
    caller: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("pinfold.sandbox.linux.warden.affinity.monotonic", lambda: now)

    def action() -> list[object]:
        nonlocal now
        affinity = CallerAffinity()
        found: list[object] = []
        for seconds in (0.0, 0.001, 0.001, 1.0, 0.001):
            now += seconds
            affinity.unpin(caller, affinity.pin(caller))
            found.append((both(caller)[0] == EVERY, len(both(caller)[1]), affinity.idle_timeout is not None))
        return found

    alone, in_a_row = (True, len(EVERY), False), (True, 1, True)
    assert in_child(action) == [alone, in_a_row, in_a_row, alone, in_a_row]


def test_unpinning_restores_the_callers_own_mask(caller: int) -> None:
    """A small machine has no choice of processors between one and all."""

    def action() -> bool:
        chosen = set(sorted(EVERY)[:-1])
        os.sched_setaffinity(0, {min(chosen)})
        os.sched_setaffinity(0, EVERY)
        os.sched_setaffinity(caller, chosen)
        affinity = CallerAffinity()
        affinity.unpin(caller, kept) if (kept := affinity.pin(caller)) else None
        affinity.unpin_self()
        return both(caller) == (chosen, EVERY)

    assert in_child(action)


def test_a_caller_that_may_not_run_on_our_processor_is_not_pinned(caller: int) -> None:
    def action() -> list[object]:
        here, there = min(EVERY), max(EVERY)
        os.sched_setaffinity(0, {here, there})
        affinity = CallerAffinity()
        affinity.pin(os.getpid())
        (stayed,) = os.sched_getaffinity(0)
        other = there if stayed == here else here
        os.sched_setaffinity(caller, {other})
        left = affinity.pin(caller)
        os.sched_setaffinity(caller, {stayed})
        return [left, affinity.pin(caller), both(caller) == ({stayed}, {stayed})]

    assert in_child(action) == [b"", b"", True]


def test_a_mask_that_another_thread_set_meanwhile_stays(caller: int) -> None:
    def action() -> bool:
        affinity = CallerAffinity()
        kept = affinity.pin(caller)
        others = EVERY - os.sched_getaffinity(caller)
        os.sched_setaffinity(caller, others)
        affinity.unpin(caller, kept)
        return os.sched_getaffinity(caller) == others

    assert in_child(action)


def test_no_caller_is_pinned_for_a_while_after_others_ran(
    caller: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 2 * LATE, 1.0, 1.0))
    monkeypatch.setattr("pinfold.sandbox.linux.warden.affinity.monotonic", lambda: next(clock))

    def action() -> list[object]:
        affinity = CallerAffinity()
        affinity.unpin(caller, affinity.pin(caller))
        free = both(caller)
        kept = [bool(affinity.pin(caller)) for _ in range(SKIPPED + 1)]
        return [free == (EVERY, EVERY), kept == [False] * SKIPPED + [True]]

    assert in_child(action) == [True, True]


def test_a_caller_that_ended_or_has_one_processor_is_not_pinned(caller: int) -> None:
    def action() -> list[object]:
        gone = CallerAffinity().pin(2**22 + 1)
        os.sched_setaffinity(0, {min(EVERY)})
        bound = CallerAffinity()
        return [gone, bound.pin(caller), bound.here, os.sched_getaffinity(caller) == EVERY]

    assert in_child(action) == [b"", b"", b"", True]


def test_nothing_is_pinned_if_the_kernel_refuses(caller: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_calls, "set_affinity", lambda thread, mask: False)
    affinity = CallerAffinity()
    assert affinity.pin(caller) == b"" == affinity.here and affinity.idle_timeout is None
