"""How each layer stands on a machine, and what would mend it."""

import errno
from typing import Any

import pytest

from pinfold.model.machine import Layer as Fact
from pinfold.model.machine import Machine
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import EnforcementLevel
from pinfold.sandbox.compat import NAMESPACES, apparmor_profile, judge, remedy
from pinfold.sandbox.doctor_report import LayerState, layer_reports
from pinfold.sandbox.linux.host.backend import ask_machine

REFUSED = Fact(False, "Operation not permitted")
READ_ONLY = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)


def machine(**facts: Any) -> Machine:
    good = {
        "landlock": 10,
        "seccomp": Fact(True),
        "release": "6.18.1",
        "superuser": False,
        "cgroup": Fact(True),
    }
    return ask_machine()._replace(**{**good, **facts})


def state(name: str, **facts: Any) -> tuple[LayerState, str]:
    (found,) = [each for each in layer_reports(machine(**facts)) if each.name == name]
    return found.state, found.fix


def test_a_machine_that_can_do_all() -> None:
    assert {each.state for each in layer_reports(machine())} == {LayerState.ENFORCED, LayerState.READY}
    assert not [each.fix for each in layer_reports(machine()) if each.fix]


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        ({"most_user_namespaces": 0}, "sudo sysctl user.max_user_namespaces=15000"),
        ({"user_namespaces_are_roots": True}, "sudo sysctl kernel.unprivileged_userns_clone=1"),
        (
            {"apparmor_restricts_user_namespaces": True},
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"container": "docker"}, "docker run --security-opt seccomp=unconfined"),
        ({"container": "podman"}, "podman run --security-opt seccomp=unconfined"),
        ({}, "run it outside of the sandbox"),
    ],
)
def test_refused_namespaces_have_one_remedy(facts: dict[str, Any], command: str) -> None:
    found, fix = state("user namespace", user_namespace=REFUSED, **facts)
    assert found is LayerState.NOT
    assert fix.startswith(command)


@pytest.mark.parametrize("name", [*NAMESPACES, "fresh_proc"])
def test_what_stands_here_as_missing_is_what_compat_judges_by(name: str) -> None:
    without = machine(**{name: REFUSED})
    enforcement = judge(without, READ_ONLY)
    assert enforcement.level is EnforcementLevel.NONE
    (gap,) = enforcement.missing
    (row,) = [each for each in layer_reports(without) if each.state is LayerState.NOT]
    assert (gap.why, gap.remedy) == (row.detail, row.fix)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, LayerState.NOT),
        (1, LayerState.PARTLY),
        (2, LayerState.ENFORCED),
        (7, LayerState.ENFORCED),
        (12, LayerState.ENFORCED),
    ],
)
def test_landlock(version: int, expected: LayerState) -> None:
    found, fix = state("Landlock", landlock=version)
    assert found is expected
    assert bool(fix) == (expected is not LayerState.ENFORCED)


def test_landlock_says_what_it_lacks() -> None:
    (row,) = [each for each in layer_reports(machine(landlock=7)) if each.name == "Landlock"]
    assert "unix sockets by path (held by seccomp)" in row.detail
    assert "truncation" not in row.detail


def test_landlock_that_was_not_booted_with() -> None:
    reason = "landlock: not in this kernel, or not in its list of security modules"
    _, fix = state("Landlock", landlock=0, landlock_reason=reason, landlock_errno=errno.EOPNOTSUPP)
    assert "lsm=landlock" in fix


@pytest.mark.parametrize(("scope", "expected"), [(-1, "ready"), (0, "ready"), (2, "ready"), (3, "not")])
def test_yama(scope: int, expected: str) -> None:
    assert state("Yama ptrace scope", yama=scope)[0] == expected


def test_a_cgroup_is_not_needed() -> None:
    without = machine(cgroup=Fact(False, "not delegated"), cgroup_path="/sys/fs/cgroup/user.slice")
    (row,) = [each for each in layer_reports(without) if each.name == "cgroup delegation"]
    assert (row.state, row.needed) == (LayerState.NOT, False)
    assert "Delegate=yes" in row.fix
    assert "unified_cgroup_hierarchy" in remedy(without._replace(cgroup_path=""), "cgroup")


def test_the_profile_names_this_python_alone() -> None:
    closed = machine(apparmor_restricts_user_namespaces=True)
    text = apparmor_profile(closed, "/usr/bin/python3.12")
    assert "profile pinfold /usr/bin/python3.12 flags=(unconfined)" in text
    assert "userns," in text
    assert apparmor_profile(machine(), "/usr/bin/python3.12") == ""
    assert apparmor_profile(closed._replace(superuser=True), "/usr/bin/python3.12") == ""


def test_a_container_is_named_before_switches_of_the_machine() -> None:
    inside = machine(container="docker", most_user_namespaces=0)
    assert remedy(inside, "user_namespace").startswith("docker run")
    assert "systempaths=unconfined" in remedy(inside, "fresh_proc")


def test_a_switch_that_refuses_is_named_in_a_container_too() -> None:
    full = Fact(False, "unshare: No space left on device", errno.ENOSPC)
    inside = machine(container="docker", most_user_namespaces=0, user_namespace=full)
    assert remedy(inside, "user_namespace") == (
        "sudo sysctl user.max_user_namespaces=15000  # on the machine that runs the container"
    )
    assert remedy(inside._replace(most_user_namespaces=9), "user_namespace").startswith("docker run")
