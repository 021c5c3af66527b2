"""A plan fitted to a machine: what cannot be done there is taken out, and named. Pure.

Nothing is taken out silently: each loss is a `Gap` of the answer's `Enforcement`, and whoever runs the plan
asks `require_accepted` first. A machine without user namespaces has no pen of this kind at all.
"""

from collections.abc import Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.enforcement import Enforcement, Gap, Layer, Level
from pinfold.sandbox.operations import Landlock, Protect, Seccomp
from pinfold.sandbox.plan import Plan

LANDLOCK_WITH_REFER = 2
LANDLOCK_WITH_UNIX = 9


class Machine(Struct, frozen=True):
    """What this kernel, as this user, can enforce."""

    user_namespaces: bool = True
    fresh_proc: bool = True
    landlock: int = 7
    """The ABI; 0 is none."""
    seccomp: bool = True
    pid_max: bool = True
    """Whether a pid namespace can be bounded by its own pid_max (6.14)."""
    superuser: bool = False
    why: str = ""
    """Why user namespaces or proc are refused, in the kernel's words."""


def fit(plan: Plan, machine: Machine, policy: SandboxPolicy) -> tuple[Plan, Enforcement]:
    """What of a plan this machine can do, and what is then enforced."""
    if not machine.user_namespaces or not machine.fresh_proc:
        layer = Layer.PROC if machine.user_namespaces else Layer.NAMESPACES
        remedy = "allow user namespaces, or run outside of a container that masks /proc"
        return Plan(()), Enforcement(Level.NONE, (Gap(layer, machine.why or "the kernel refuses", remedy),))
    operations = tuple(
        operation
        for operation in plan.operations
        if not (isinstance(operation, Landlock) and not machine.landlock)
        and not (isinstance(operation, Seccomp) and not machine.seccomp)
    )
    missing = tuple(_gaps(plan, machine, policy))
    return replace(plan, operations=operations), Enforcement(
        Level.PARTIAL if missing else Level.FULL, missing
    )


def _gaps(plan: Plan, machine: Machine, policy: SandboxPolicy) -> Iterator[Gap]:
    if machine.landlock < LANDLOCK_WITH_REFER:
        yield Gap(
            Layer.LANDLOCK, "this kernel has no Landlock, or only its first version", "Linux 5.19 or newer"
        )
    if not machine.seccomp:
        yield Gap(Layer.SECCOMP, "this kernel filters no system calls")
    if machine.landlock < LANDLOCK_WITH_UNIX:
        yield Gap(Layer.UNIX_SOCKETS, "a socket of the machine outside /run and /tmp can be connected to")
    if any(isinstance(operation, Landlock) for operation in plan.operations):
        yield Gap(Layer.NAMES, "a protected name that does not exist yet can be made")
    if policy.limits.processes is not None and machine.superuser and not machine.pid_max:
        yield Gap(Layer.PROCESSES, "root is not bound by RLIMIT_NPROC", "Linux 6.14 or newer")
    if policy.limits.memory is not None:
        yield Gap(Layer.MEMORY, "the limit is of each process, not of the command")


def require_accepted(enforcement: Enforcement, accepted: Collection[Layer]) -> None:
    """Refuses to go on without a layer, unless its loss was accepted by name."""
    lost = [gap for gap in enforcement.missing if gap.layer not in accepted]
    if enforcement.level is Level.NONE or lost:
        gap = lost[0] if lost else enforcement.missing[0]
        remedy = f"; {gap.remedy}" if gap.remedy else ""
        raise ConfinementError(f"this machine cannot hold the fence: {gap.layer}: {gap.why}{remedy}")


def protected_in(plan: Plan) -> tuple[str, ...]:
    return tuple(operation.path for operation in plan.operations if isinstance(operation, Protect))
