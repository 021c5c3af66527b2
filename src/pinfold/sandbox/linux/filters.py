"""The seccomp programs that a plan names, compiled once, as plain tuples for the keeper."""

from functools import lru_cache

from pinfold.sandbox.operations import Seccomp
from pinfold.sandbox.plan import PAIRS, STREAMS, Plan
from pinfold.sandbox.seccomp.profile import UnixSockets, Warden, profile

Program = list[tuple[int, int, int, int]]

UNIX = {PAIRS: UnixSockets.PAIRS, STREAMS: UnixSockets.STREAMS}


def filters_of(plan: Plan, architecture: str) -> dict[str, Program]:
    steps = [step for step in plan.operations if isinstance(step, Seccomp)]
    return {step.profile: _compiled(architecture, step.watched, UNIX[step.profile]) for step in steps}


@lru_cache(maxsize=4)
def _compiled(architecture: str, watched: bool, unix: UnixSockets) -> Program:
    warden = Warden.PRESENT if watched else Warden.ABSENT
    return [(one.code, one.yes, one.no, one.value) for one in profile(architecture, warden, unix)]
