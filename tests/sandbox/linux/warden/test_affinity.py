"""Callers are kept for a moment, and free again afterwards. Here a caller is a child that sleeps."""

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


def test_both_are_kept_and_set_free(caller: int) -> None:
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


def test_we_stay_only_where_calls_come_in_a_row(caller: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_was_chosen_comes_back(caller: int) -> None:
    """Of processors more than one and fewer than all there is no choice on a small machine."""

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


def test_a_caller_that_may_not_come_is_left_alone(caller: int) -> None:
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


def test_what_another_set_meanwhile_stands(caller: int) -> None:
    def action() -> bool:
        affinity = CallerAffinity()
        kept = affinity.pin(caller)
        others = EVERY - os.sched_getaffinity(caller)
        os.sched_setaffinity(caller, others)
        affinity.unpin(caller, kept)
        return os.sched_getaffinity(caller) == others

    assert in_child(action)


def test_nobody_is_kept_for_a_while_where_others_wait_too(
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


def test_who_is_gone_or_bound_to_one_processor_stays_as_it_is(caller: int) -> None:
    def action() -> list[object]:
        gone = CallerAffinity().pin(2**22 + 1)
        os.sched_setaffinity(0, {min(EVERY)})
        bound = CallerAffinity()
        return [gone, bound.pin(caller), bound.here, os.sched_getaffinity(caller) == EVERY]

    assert in_child(action) == [b"", b"", b"", True]


def test_a_kernel_that_refuses_is_left_alone(caller: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_calls, "set_affinity", lambda thread, mask: False)
    affinity = CallerAffinity()
    assert affinity.pin(caller) == b"" == affinity.here and affinity.idle_timeout is None
