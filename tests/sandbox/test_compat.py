"""What a machine cannot do is taken out of the plan, and named."""

from typing import Any

import pytest

from pinfold.model.errors import ConfinementError
from pinfold.model.machine import Layer as Fact
from pinfold.model.machine import Machine
from pinfold.model.policy import Limits, PolicyType, SandboxPolicy
from pinfold.sandbox.backend import EnforcementLevel, SandboxLayer
from pinfold.sandbox.compat import fit, require_accepted
from pinfold.sandbox.linux.host.backend import ask_machine
from pinfold.sandbox.linux.protocol.operations import Group, Landlock, LandlockRule, NoteReads, Seccomp
from pinfold.sandbox.plan import ALL, CHANGE, ExistingPath, ExistingPaths, plan_pen
from pinfold.sandbox.seccomp import PAIRS, STREAMS

READ_ONLY = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
WORKSPACE = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
PLAN = plan_pen(READ_ONLY, ExistingPaths((ExistingPath("/work"),)))


def machine(**facts: Any) -> Machine:
    good = {"landlock": 9, "seccomp": Fact(True), "release": "6.18.1-x", "cgroup": Fact(False, "none")}
    return ask_machine()._replace(**{**good, **facts})


def kinds(plan: Any, kind: type) -> list[Any]:
    return [operation for operation in plan.operations if isinstance(operation, kind)]


def test_a_machine_that_can_do_all_enforces_all() -> None:
    plan, enforcement = fit(PLAN, machine(), READ_ONLY)
    assert (enforcement.level, enforcement.missing) == (EnforcementLevel.FULL, ())
    assert kinds(plan, Seccomp) == [Seccomp(STREAMS, watched=True)]
    require_accepted(enforcement, ())


@pytest.mark.parametrize(
    ("facts", "policy", "missing"),
    [
        ({"landlock": 7}, READ_ONLY, []),
        ({"landlock": 0}, READ_ONLY, [SandboxLayer.LANDLOCK]),
        ({"landlock": 1}, READ_ONLY, [SandboxLayer.LANDLOCK]),
        ({"seccomp": Fact(False)}, READ_ONLY, [SandboxLayer.SECCOMP]),
        (
            {"seccomp": Fact(False), "landlock": 7},
            READ_ONLY,
            [SandboxLayer.SECCOMP, SandboxLayer.UNIX_SOCKETS],
        ),
        ({}, WORKSPACE, []),
        ({"notification": Fact(False)}, WORKSPACE, [SandboxLayer.NAMES]),
        ({"wait_killable": Fact(False)}, WORKSPACE, [SandboxLayer.NAMES]),
        ({"notification": Fact(False)}, READ_ONLY, []),
        ({"landlock": 1}, WORKSPACE, [SandboxLayer.LANDLOCK, SandboxLayer.NAMES]),
        ({"superuser": True, "release": "6.8.0"}, SandboxPolicy(READ_ONLY.type, limits=Limits(processes=9)),
         [SandboxLayer.PROCESSES]),
        ({"superuser": True}, SandboxPolicy(READ_ONLY.type, limits=Limits(processes=9)), []),
        ({"superuser": True, "release": "6.8.0", "cgroup": Fact(True)},
         SandboxPolicy(READ_ONLY.type, limits=Limits(processes=9)), []),
        ({}, SandboxPolicy(READ_ONLY.type, limits=Limits(memory=9)), [SandboxLayer.MEMORY]),
        ({"cgroup": Fact(True)}, SandboxPolicy(READ_ONLY.type, limits=Limits(memory=9)), []),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    facts: dict[str, Any], policy: SandboxPolicy, missing: list[SandboxLayer]
) -> None:
    plan, enforcement = fit(PLAN, machine(**facts), policy)
    assert [gap.layer for gap in enforcement.missing] == missing
    assert enforcement.level is (EnforcementLevel.PARTIAL if missing else EnforcementLevel.FULL)
    assert bool(kinds(plan, Landlock)) == bool(machine(**facts).landlock)
    require_accepted(enforcement, missing)
    for layer in missing:
        with pytest.raises(ConfinementError, match=layer):
            require_accepted(enforcement, set(missing) - {layer})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"landlock": 7}, Seccomp(STREAMS, watched=True)),
        ({"landlock": 7, "notification": Fact(False)}, Seccomp(PAIRS)),
        ({"landlock": 9, "notification": Fact(False)}, Seccomp(STREAMS)),
    ],
)
def test_only_pairs_of_unix_sockets_where_nobody_judges_a_connect(
    facts: dict[str, Any], expected: Seccomp
) -> None:
    plan, _ = fit(PLAN, machine(**facts), READ_ONLY)
    assert kinds(plan, Seccomp) == [expected]


@pytest.mark.parametrize("listens", [True, False])
def test_reads_are_noted_by_a_warden_alone(listens: bool) -> None:
    plan = plan_pen(READ_ONLY, ExistingPaths((ExistingPath("/work"),)), notes_reads=True)
    fitted, _ = fit(plan, machine(notification=Fact(listens)), READ_ONLY)
    assert bool(kinds(fitted, NoteReads)) is listens


@pytest.mark.parametrize("delegated", [True, False])
def test_limits_have_a_group_where_one_is_delegated(delegated: bool) -> None:
    policy = SandboxPolicy(READ_ONLY.type, limits=Limits(memory=1 << 20, processes=9))
    plan = plan_pen(policy, ExistingPaths((ExistingPath("/work"),)))
    fitted, _ = fit(plan, machine(cgroup=Fact(delegated)), policy)
    assert kinds(fitted, Group) == ([Group(1 << 20, 9)] if delegated else [])
    assert not kinds(PLAN, Group)


def test_without_a_warden_commands_make_names_themselves() -> None:
    plan = plan_pen(WORKSPACE, ExistingPaths((ExistingPath("/work"),)))
    (landlock,) = kinds(plan, Landlock)
    assert LandlockRule("/work", CHANGE) in landlock.rules
    fitted, _ = fit(plan, machine(wait_killable=Fact(False)), WORKSPACE)
    (landlock,) = kinds(fitted, Landlock)
    assert LandlockRule("/work", ALL) in landlock.rules
    assert not kinds(fitted, Seccomp)[0].watched


@pytest.mark.parametrize("fact", ["user_namespace", "fresh_proc"])
def test_no_fence_no_run_even_if_accepted(fact: str) -> None:
    plan, enforcement = fit(PLAN, machine(**{fact: Fact(False, "no such luck")}), READ_ONLY)
    assert (plan.operations, enforcement.level) == ((), EnforcementLevel.NONE)
    with pytest.raises(ConfinementError, match="no such luck"):
        require_accepted(enforcement, tuple(SandboxLayer))
