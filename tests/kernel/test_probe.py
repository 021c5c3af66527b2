"""The probe: it answers, it changes nothing, and it is believed only where trying agrees."""

import os
import time

import pytest

from pinfold.kernel import landlock, probe
from pinfold.model.machine import Layer, Machine
from tests.kernel.child import USERS, in_child


@USERS
def test_every_layer_works_or_says_why(uid: int) -> None:
    machine = in_child(probe.probe, uid)
    for name, value in machine._asdict().items():
        if isinstance(value, Layer):
            assert value.works != bool(value.reason), name
    assert machine.release == os.uname().release
    assert machine.superuser == (uid == 0)
    assert bool(machine.landlock) != bool(machine.landlock_reason)


def test_it_changes_nothing() -> None:
    def now() -> object:
        with open("/proc/self/mountinfo") as mounts, open("/proc/self/status") as status:
            kept = [line for line in status if line.startswith(("NoNewPrivs", "Seccomp", "Cap"))]
            return mounts.read(), kept, os.listdir("/proc/self/fd"), os.readlink("/proc/self/ns/user")

    def action() -> tuple[object, object]:
        before = now()
        probe.probe()
        return before, now()

    before, after = in_child(action)
    assert before == after


def test_a_child_that_hangs_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SECONDS", 2.0)
    steps: list[probe.Step] = [("first", int), ("second", lambda: time.sleep(60)), ("third", int)]
    answers = in_child(lambda: probe._ask(steps))
    assert answers == {
        "first": Layer(True),
        "second": Layer(False, "it did not answer"),
        "third": Layer(False, "it did not answer"),
    }


def test_a_child_that_dies_is_no() -> None:
    answers = in_child(lambda: probe._ask([("first", lambda: os._exit(3)), ("second", lambda: None)]))
    assert not any(layer.works for layer in answers.values())


def test_what_it_says_of_landlock(machine: Machine) -> None:
    assert machine.landlock in (0, landlock.abi_version())
