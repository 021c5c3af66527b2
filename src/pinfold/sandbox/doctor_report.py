"""Every layer of the sandbox on one machine, for a person: whether it works, and what would mend it. Pure.

Whether a policy is enforced is `compat`'s to judge; this only spells out the facts that it judges by.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from pinfold.model.machine import Machine
from pinfold.sandbox.compat import LANDLOCK_WITH_REFER, NAMESPACES, remedy

YAMA_CLOSED = 3
LANDLOCK_GREW = (
    (2, "moves between directories", ""),
    (3, "truncation", "mounts"),
    (4, "TCP", "the network namespace"),
    (5, "device ioctls", "a private /dev"),
    (6, "signals and abstract sockets", "namespaces"),
    (9, "unix sockets by path", "seccomp"),
    (10, "UDP", "the network namespace"),
)
"""What each version of Landlock brought, and what holds that where it is missing."""
SERVES = {
    "user_namespace": "root powers inside the sandbox alone",
    "mount_namespace": "a file tree of its own, mostly read-only",
    "pid_namespace": "the machine's processes are out of sight",
    "net_namespace": "no network but the gate's",
    "ipc_namespace": "shared memory and queues of its own",
    "uts_namespace": "a host name of its own",
    "cgroup_namespace": "a cgroup tree of its own",
    "fresh_proc": "a /proc of its own",
    "no_new_privs": "setuid programs gain nothing",
    "seccomp": "system calls that no command needs are blocked",
    "notification": "a system call can wait for an answer",
    "wait_killable": "no signal interrupts a call that waits",
}


class LayerState(StrEnum):
    NOT = "not"
    PARTLY = "partly"
    ENFORCED = "enforced"
    READY = "ready"
    """Of what enforces nothing itself."""


class LayerReport(Struct, frozen=True):
    """The state of one layer."""

    name: str
    state: LayerState
    detail: str
    fix: str = ""
    """The one command that would mend it."""
    needed: bool = True
    """Whether the sandbox of the default policy needs it."""


def layer_reports(machine: Machine) -> Iterator[LayerReport]:
    """Every layer, the outermost first."""
    for name in (*NAMESPACES, "fresh_proc"):
        yield _fact(machine, name)
    yield _landlock(machine)
    for name in ("no_new_privs", "seccomp", "notification", "wait_killable"):
        yield _fact(machine, name)
    yield _yama(machine)
    yield _cgroup(machine)


def _fact(machine: Machine, name: str) -> LayerReport:
    fact = getattr(machine, name)
    shown = name.replace("_", " ").replace("fresh proc", "fresh /proc")
    if fact.works:
        return LayerReport(shown, LayerState.ENFORCED, SERVES[name])
    return LayerReport(shown, LayerState.NOT, fact.reason or "refused", remedy(machine, name))


def _landlock(machine: Machine) -> LayerReport:
    if not machine.landlock:
        reason = machine.landlock_reason or "refused"
        return LayerReport("Landlock", LayerState.NOT, reason, remedy(machine, "landlock"))
    lacks = [
        what + (f" (held by {instead})" if instead else "")
        for version, what, instead in LANDLOCK_GREW
        if version > machine.landlock
    ]
    detail = f"version {machine.landlock}" + (f", without {', '.join(lacks)}" if lacks else "")
    if machine.landlock < LANDLOCK_WITH_REFER:
        return LayerReport("Landlock", LayerState.PARTLY, detail, remedy(machine, "landlock"))
    return LayerReport("Landlock", LayerState.ENFORCED, detail)


def _yama(machine: Machine) -> LayerReport:
    if machine.yama >= YAMA_CLOSED:
        why = "scope 3: no process may read another, so no call can be answered"
        return LayerReport("Yama ptrace scope", LayerState.NOT, why, remedy(machine, "yama"))
    detail = "not in this kernel" if machine.yama < 0 else f"scope {machine.yama}"
    return LayerReport(
        "Yama ptrace scope", LayerState.READY, f"{detail}, which lets the warden read the calling process"
    )


def _cgroup(machine: Machine) -> LayerReport:
    if machine.cgroup.works:
        return LayerReport(
            "cgroup delegation",
            LayerState.READY,
            "limits on memory and processes of a whole sandbox work",
        )
    why = f"{machine.cgroup.reason}; only memory limits need it"
    return LayerReport("cgroup delegation", LayerState.NOT, why, remedy(machine, "cgroup"), needed=False)
