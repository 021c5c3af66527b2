"""A plan fitted to a machine: what cannot be done there is taken out, and named. Pure.

Nothing is taken out silently: each loss is a `Gap` of the answer's `Enforcement`, and whoever runs the plan
asks `require_accepted` first. A machine without namespaces has no pen of this kind at all.
"""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.machine import Machine
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.enforcement import Enforcement, Gap, Layer, Level
from pinfold.sandbox.linux.protocol.operations import (
    Group,
    Landlock,
    LandlockRule,
    NoteReads,
    Operation,
    Seccomp,
)
from pinfold.sandbox.plan import ALL, CHANGE, Plan
from pinfold.sandbox.remedies import remedy
from pinfold.sandbox.seccomp import PAIRS, STREAMS

NAMESPACES = (
    "user_namespace",
    "mount_namespace",
    "pid_namespace",
    "net_namespace",
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
)
"""What a session is made of: without any one of them there is none."""
LANDLOCK_WITH_REFER = 2
LANDLOCK_WITH_UNIX = 9
PID_MAX_OF_A_NAMESPACE = (6, 14)


def fit(plan: Plan, machine: Machine, policy: SandboxPolicy) -> tuple[Plan, Enforcement]:
    """What of a plan this machine can do, and what is then enforced."""
    enforcement = judge(machine, policy)
    if enforcement.level is Level.NONE:
        return Plan(()), enforcement
    return replace(plan, operations=tuple(_fitted(plan, machine))), enforcement


def judge(machine: Machine, policy: SandboxPolicy) -> Enforcement:
    """What this machine enforces of a policy."""
    needed = [(Layer.NAMESPACES, getattr(machine, name), name) for name in NAMESPACES]
    for layer, fact, name in (*needed, (Layer.PROC, machine.fresh_proc, "fresh_proc")):
        if not fact.works:
            return Enforcement(Level.NONE, (Gap(layer, fact.reason or "refused", remedy(machine, name)),))
    missing = tuple(_gaps(machine, policy))
    return Enforcement(Level.PARTIAL if missing else Level.FULL, missing)


def _fitted(plan: Plan, machine: Machine) -> Iterator[Operation]:
    for operation in plan.operations:
        if isinstance(operation, Seccomp):
            if machine.seccomp.works:
                watched = operation.watched and _has_warden(machine)
                judged = watched or machine.landlock >= LANDLOCK_WITH_UNIX
                asks = watched and operation.asks
                profile = STREAMS if judged else PAIRS
                yield Seccomp(profile, watched, operation.sockets, asks, operation.agents)
        elif isinstance(operation, Group):
            if machine.cgroup.works:
                yield operation
        elif isinstance(operation, NoteReads):
            if _has_warden(machine):
                yield operation
        elif not isinstance(operation, Landlock):
            yield operation
        elif machine.landlock:
            yield operation if _has_warden(machine) else Landlock(tuple(map(_unwatched, operation.rules)))


def _has_warden(machine: Machine) -> bool:
    """Without WAIT_KILLABLE a signal would make a call that was already done on behalf a second time, and
    without Landlock a path that is swapped after the warden's look would be made."""
    listens = machine.seccomp.works and machine.notification.works and machine.wait_killable.works
    return listens and machine.landlock >= LANDLOCK_WITH_REFER


def _unwatched(rule: LandlockRule) -> LandlockRule:
    """Where no warden makes names, whoever may change a place makes them."""
    return LandlockRule(rule.path, ALL) if rule.access == CHANGE else rule


def _gaps(machine: Machine, policy: SandboxPolicy) -> Iterator[Gap]:
    if machine.landlock < LANDLOCK_WITH_REFER:
        yield Gap(Layer.LANDLOCK, "no Landlock, or only its first version", remedy(machine, "landlock"))
    if not machine.seccomp.works:
        yield Gap(
            Layer.SECCOMP,
            machine.seccomp.reason or "this kernel filters no system calls",
            remedy(machine, "seccomp"),
        )
        if machine.landlock < LANDLOCK_WITH_UNIX:
            yield Gap(Layer.UNIX_SOCKETS, "a socket of the machine outside /run and /tmp can be connected to")
    writes = policy.type is PolicyType.WORKSPACE_READWRITE
    if writes and not _has_warden(machine):
        yield Gap(Layer.NAMES, "a protected name that does not exist yet can be made", "Linux 5.19 or newer")
    outgrows = machine.superuser and _version(machine.release) < PID_MAX_OF_A_NAMESPACE
    if policy.limits.processes is not None and outgrows and not machine.cgroup.works:
        yield Gap(Layer.PROCESSES, "root is not bound by RLIMIT_NPROC", "Linux 6.14 or newer")
    if policy.limits.memory is not None and not machine.cgroup.works:
        why = "the limit is of each process, not of the command"
        yield Gap(Layer.MEMORY, why, remedy(machine, "cgroup"))


def _version(release: str) -> tuple[int, ...]:
    major, _, rest = release.partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (int(major), int(minor)) if major.isdecimal() and minor else (0, 0)


def require_accepted(enforcement: Enforcement, accepted: Collection[Layer]) -> None:
    """Refuses to go on without a layer, unless its loss was accepted by name."""
    lost = [gap for gap in enforcement.missing if gap.layer not in accepted]
    if enforcement.level is Level.NONE or lost:
        gap = lost[0] if lost else enforcement.missing[0]
        remedy = f"; {gap.remedy}" if gap.remedy else ""
        raise ConfinementError(f"this machine cannot hold the fence: {gap.layer}: {gap.why}{remedy}")
