"""Fits a plan to a machine: takes out what the machine cannot do, and names each loss and its remedy. Pure.

Nothing is taken out silently: each loss is a `Gap` of the resulting `Enforcement`, and the backend calls
`require_accepted` before it runs the plan. A machine without namespaces has no pen of this kind at all.

Facts about what refuses namespaces:
- Ubuntu since 23.10: AppArmor takes every capability in a namespace that an unconfined program made. A
  profile of the program's own with `userns,` in it gives them back; the sysctl switches the rule off for all.
- `user.max_user_namespaces = 0` and, on older Debian, `kernel.unprivileged_userns_clone = 0` are switches.
  The first one refuses with ENOSPC, and then no option of a container's helps.
- Docker and podman refuse unshare by seccomp, mounts by AppArmor, and a fresh /proc by masking the old one.
"""

from collections.abc import Collection, Iterator
from errno import ENOSPC, EOPNOTSUPP

from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.machine import Machine
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.sandbox.backend import Enforcement, EnforcementLevel, Gap, SandboxLayer
from pinfold.sandbox.linux.protocol.operations import (
    Group,
    Landlock,
    LandlockRule,
    NoteReads,
    Operation,
    Seccomp,
)
from pinfold.sandbox.plan import ALL, CHANGE, Plan
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
    if enforcement.level is EnforcementLevel.NONE:
        return Plan(()), enforcement
    return replace(plan, operations=tuple(_fitted(plan, machine))), enforcement


def judge(machine: Machine, policy: SandboxPolicy) -> Enforcement:
    """What this machine enforces of a policy."""
    needed = [(SandboxLayer.NAMESPACES, getattr(machine, name), name) for name in NAMESPACES]
    for layer, fact, name in (*needed, (SandboxLayer.PROC, machine.fresh_proc, "fresh_proc")):
        if not fact.works:
            return Enforcement(
                EnforcementLevel.NONE, (Gap(layer, fact.reason or "refused", remedy(machine, name)),)
            )
    missing = tuple(_gaps(machine, policy))
    return Enforcement(EnforcementLevel.PARTIAL if missing else EnforcementLevel.FULL, missing)


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
    """Without a warden that makes names, a command that may change a directory makes them itself."""
    return LandlockRule(rule.path, ALL) if rule.access == CHANGE else rule


def _gaps(machine: Machine, policy: SandboxPolicy) -> Iterator[Gap]:
    if machine.landlock < LANDLOCK_WITH_REFER:
        yield Gap(
            SandboxLayer.LANDLOCK, "no Landlock, or only its first version", remedy(machine, "landlock")
        )
    if not machine.seccomp.works:
        yield Gap(
            SandboxLayer.SECCOMP,
            machine.seccomp.reason or "this kernel filters no system calls",
            remedy(machine, "seccomp"),
        )
        if machine.landlock < LANDLOCK_WITH_UNIX:
            yield Gap(
                SandboxLayer.UNIX_SOCKETS, "a socket of the machine outside /run and /tmp can be connected to"
            )
    writes = policy.type is PolicyType.WORKSPACE_READWRITE
    if writes and not _has_warden(machine):
        yield Gap(
            SandboxLayer.NAMES,
            "commands can create protected names that do not exist yet",
            "Linux 5.19 or newer",
        )
    outgrows = machine.superuser and _version(machine.release) < PID_MAX_OF_A_NAMESPACE
    if policy.limits.processes is not None and outgrows and not machine.cgroup.works:
        yield Gap(SandboxLayer.PROCESSES, "root is not bound by RLIMIT_NPROC", "Linux 6.14 or newer")
    if policy.limits.memory is not None and not machine.cgroup.works:
        why = "the limit is of each process, not of the command"
        yield Gap(SandboxLayer.MEMORY, why, remedy(machine, "cgroup"))


def _version(release: str) -> tuple[int, ...]:
    major, _, rest = release.partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (int(major), int(minor)) if major.isdecimal() and minor else (0, 0)


def require_accepted(enforcement: Enforcement, accepted: Collection[SandboxLayer]) -> None:
    """Refuses to go on without a layer, unless its loss was accepted by name."""
    lost = [gap for gap in enforcement.missing if gap.layer not in accepted]
    if enforcement.level is EnforcementLevel.NONE or lost:
        gap = lost[0] if lost else enforcement.missing[0]
        remedy = f"; {gap.remedy}" if gap.remedy else ""
        raise ConfinementError(f"this machine cannot make the sandbox: {gap.layer}: {gap.why}{remedy}")


SYSCTL = "sudo sysctl {}"
DOCKER = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    " --security-opt systempaths=unconfined ..."
)
PODMAN = "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL ..."
OUTER = "run it outside of the sandbox or container that refuses it"
APPARMOR_PROFILE = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile pinfold {python} flags=(unconfined) {{\\n"
    "  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/pinfold && sudo apparmor_parser -r /etc/apparmor.d/pinfold"
)
BOOT_WITH_LANDLOCK = (
    'sudo sed -i "s/^GRUB_CMDLINE_LINUX=\\"/&lsm=landlock,$(cat /sys/kernel/security/lsm) /"'
    " /etc/default/grub && sudo update-grub && sudo reboot"
)
BOOT_WITH_CGROUP_2 = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"
DELEGATE = "systemd-run --user --scope -p Delegate=yes $SHELL"


def remedy(machine: Machine, layer: str) -> str:
    """What to do about a layer, by its name in `Machine`; empty if nothing is known to help."""
    if layer.endswith("_namespace"):
        return _namespaces(machine)
    if layer == "fresh_proc":
        return _container(machine) or OUTER
    if layer == "landlock":
        known = not machine.landlock and machine.landlock_errno == EOPNOTSUPP
        return BOOT_WITH_LANDLOCK if known else _container(machine) or "boot Linux 5.19 or newer"
    if layer == "cgroup":
        # In the hybrid layout the controllers are version 1's.
        hybrid = not machine.cgroup_path or "/unified" in machine.cgroup_path
        return BOOT_WITH_CGROUP_2 if hybrid else DELEGATE
    if layer == "yama":
        return "take kernel.yama.ptrace_scope=3 out of /etc/sysctl.d, then sudo reboot"
    if layer == "wait_killable":
        return "boot Linux 5.19 or newer"
    return _container(machine) or OUTER


def apparmor_profile(machine: Machine, python: str) -> str:
    """What opens namespaces to this Python alone, where AppArmor closes them to everybody."""
    closed = machine.apparmor_restricts_user_namespaces and not machine.container and not machine.superuser
    return APPARMOR_PROFILE.format(python=python) if closed else ""


def _namespaces(machine: Machine) -> str:
    count = SYSCTL.format("user.max_user_namespaces=15000")
    outer = _container(machine)
    if machine.most_user_namespaces == 0 and (not outer or machine.user_namespace.errno == ENOSPC):
        return f"{count}  # on the machine that runs the container" if outer else count
    if outer:
        return outer
    if not machine.superuser and machine.user_namespaces_are_roots:
        return SYSCTL.format("kernel.unprivileged_userns_clone=1")
    if machine.apparmor_restricts_user_namespaces:
        return SYSCTL.format("kernel.apparmor_restrict_unprivileged_userns=0")
    return OUTER


def _container(machine: Machine) -> str:
    return {"": "", "podman": PODMAN}.get(machine.container, DOCKER)
