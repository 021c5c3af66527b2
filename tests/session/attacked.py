"""The self-test, run in a child: against the fence, and against none."""

import os
import sys

from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.attacks.all import ATTACKS
from pinfold.sandbox.compat import judge
from pinfold.sandbox.enforcement import Layer
from pinfold.sandbox.linux.machine import ask_machine, try_machine
from pinfold.sandbox.none import NoBackend
from pinfold.session.selftest import Finding, selftest
from pinfold.session.selftest.run import attack_all
from pinfold.session.selftest.scratch import Scratch

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
NO_FENCE = (Layer.NAMESPACES, Layer.PROC)


def fence_holds() -> None:
    if lost := [gap.why for gap in judge(try_machine(), SandboxPolicy()).missing if gap.layer in NO_FENCE]:
        print(f"this machine holds no fence: {lost[0]}")
        sys.exit(77)
    findings = list(selftest(os.environ))
    with Scratch(os.environ) as scratch:
        missing = {gap.layer for gap in judge(ask_machine(), scratch.policy).missing}
    expected = NOT_YET_THERE if Layer.NAMES in missing else set()
    assert names(findings, "through") == expected, told(findings, "through")
    assert not [finding for finding in findings if "could not be" in finding.detail], told(findings)
    assert {finding.name for finding in findings} == set(ATTACKS)
    nothing_left()


def no_fence_holds_nothing() -> None:
    """An attack that fails without a fence says nothing about one."""
    with Scratch(os.environ) as scratch:
        findings = list(attack_all(NoBackend(), scratch))
    lacking = {
        finding.name
        for finding in findings
        if finding.outcome == "untried" or finding.detail.endswith(LACKING)
    }
    assert len(lacking - fenced_only()) <= MOST_LACKING, told(findings)
    root = {finding.name for finding in findings if finding.needs_root and os.geteuid()}
    failed = {finding.name for finding in findings} - names(findings, "through")
    assert failed <= lacking | root | fenced_only(), told(findings)
    assert len(names(findings, "through")) >= 75
    nothing_left()


def fenced_only() -> set[str]:
    return {attack.name for attack in ATTACKS.values() if attack.fenced_only}


def names(findings: list[Finding], outcome: str) -> set[str]:
    return {finding.name for finding in findings if finding.outcome == outcome}


def told(findings: list[Finding], outcome: str = "") -> str:
    return "\n".join(str(finding) for finding in findings if finding.outcome == outcome or not outcome)


def nothing_left() -> None:
    assert os.listdir(f"{os.environ['HOME']}/.cache") == []


if __name__ == "__main__":
    globals()[sys.argv[1]]()
