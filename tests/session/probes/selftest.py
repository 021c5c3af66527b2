"""The self-test, run in a child: against the fence, and against none."""

import os
import sys

from pinfold.diagnose.selftest import AttackResult, selftest
from pinfold.diagnose.selftest.run import attack_all
from pinfold.diagnose.selftest.scratch import Scratch
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.attacks.attack import APPROVES, HIDDEN, PROTECTED
from pinfold.sandbox.attacks.runner import ATTACKS
from pinfold.sandbox.backend import Found, SandboxLayer
from pinfold.sandbox.compat import judge
from pinfold.sandbox.linux.host.backend import LinuxBackend, ask_machine, try_machine
from pinfold.sandbox.unsandboxed import UnsandboxedBackend

NOT_YET_THERE = {
    "make_name",
    "make_name_deep",
    "rename_to_name",
    "link_to_name",
    "symlink_to_name",
    "create_through_link",
    "rename_parent_to_name",
    "plant_repository",
    "race_for_name",
}
"""Attacks that only hold where making a name is judged."""
LACKING = (
    "No such file or directory",
    "Function not implemented",
    "Address family not supported by protocol",
)
"""What the kernel says where it was built without the thing that is attacked."""
MOST_LACKING = 8
NO_FENCE = (SandboxLayer.NAMESPACES, SandboxLayer.PROC)


def fence_holds() -> None:
    require_sandbox_type()
    findings = list(selftest(os.environ))
    with Scratch(os.environ) as scratch:
        missing = {gap.layer for gap in judge(ask_machine(), scratch.policy).missing}
    expected = NOT_YET_THERE if SandboxLayer.NAMES in missing else set()
    assert names(findings, "through") == expected, told(findings, "through")
    assert not [finding for finding in findings if "could not be" in finding.detail], told(findings)
    assert {finding.name for finding in findings} == set(ATTACKS)
    nothing_left()


def holes_are_found() -> None:
    """A fence that was told of nothing to protect or hide: everything else holds."""
    require_sandbox_type()
    backend = LinuxBackend()
    with Scratch(os.environ) as scratch:
        scratch.survey = lambda _: Found(home=scratch.home)  # type: ignore[assignment]
        findings = list(attack_all(backend, scratch))
    backend.close()
    through = {finding.name: finding.claim for finding in findings if finding.outcome == "through"}
    assert {"read_hidden", "read_key", "write_hook", "delete_tasks", "move_git_aside"} <= set(through), (
        through
    )
    assert set(through) >= NOT_YET_THERE, through
    assert set(through.values()) == {HIDDEN, PROTECTED, APPROVES}, through
    assert [name for name, claim in through.items() if claim == APPROVES] == ["write_project_settings"]


def no_fence_holds_nothing() -> None:
    """An attack that fails without a fence says nothing about one."""
    with Scratch(os.environ) as scratch:
        findings = list(attack_all(UnsandboxedBackend(), scratch))
    lacking = {
        finding.name
        for finding in findings
        if finding.outcome == "untried" or finding.detail.endswith(LACKING)
    }
    assert len(lacking - sandboxed_only()) <= MOST_LACKING, told(findings)
    root = {finding.name for finding in findings if finding.needs_root and os.geteuid()}
    failed = {finding.name for finding in findings} - names(findings, "through")
    assert failed <= lacking | root | sandboxed_only(), told(findings)
    assert len(names(findings, "through")) >= 75
    nothing_left()


def require_sandbox_type() -> None:
    if lost := [gap.why for gap in judge(try_machine(), SandboxPolicy()).missing if gap.layer in NO_FENCE]:
        print(f"this machine holds no fence: {lost[0]}")
        sys.exit(77)


def sandboxed_only() -> set[str]:
    return {attack.name for attack in ATTACKS.values() if attack.sandboxed_only}


def names(findings: list[AttackResult], outcome: str) -> set[str]:
    return {finding.name for finding in findings if finding.outcome == outcome}


def told(findings: list[AttackResult], outcome: str = "") -> str:
    return "\n".join(str(finding) for finding in findings if finding.outcome == outcome or not outcome)


def nothing_left() -> None:
    assert os.listdir(f"{os.environ['HOME']}/.cache") == []


if __name__ == "__main__":
    globals()[sys.argv[1]]()
