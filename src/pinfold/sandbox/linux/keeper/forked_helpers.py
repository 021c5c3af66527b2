"""The helpers that the keeper forks: each builds a session or a pen, and leaves one process there.

A helper leaves a session's init, or a pen's spawner; a pen's helper then stays on as its warden
(`build_pen`). The keeper knows which host asked for it, and what becomes of it.

Facts that shape it:
- A session's init is made by a helper with CLONE_PARENT, so that it is the keeper's own child and dies with
  it.
- Only the kernel knows the pid that a process inside has outside: it adds it to the message
  (SCM_CREDENTIALS).
- To fork and to join a session's namespaces is a fifth of a pen's time, and depends on nothing of the pen. So
  one helper waits there for the next plan: outside of the pid namespace, where no command sees it.
- A process has its session's scheduling group (autogroup), and uid 0 inside may slow down the group of any
  process that it sees. So a pen's helper, and with it the spawner, has another than the keeper and init.
- A process that is not dumpable keeps its /proc/PID/ns closed even to its owner outside, so init opens its
  namespaces itself, before, and sends them.
- The same uid is enough to signal a process, whatever its capabilities (kill(2)). A spawner has its commands'
  uid, and is in their pid namespace before its pen is ready: commands of the session's other pens can stop it
  (SIGSTOP). /proc/PID/stat tells everybody which process is stopped: the name in brackets, then the state.

What this means for us: the keeper does not know the pid of a spawner that was stopped before its first
report. So it resumes every stopped process that has a spawner's name. A program may take that name, and gains
that it is resumed.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from pinfold.kernel import mounts, namespaces
from pinfold.kernel.process import close_all_but, set_name
from pinfold.model.protected_names import NameRule, rule_from
from pinfold.sandbox.linux.init import main as init
from pinfold.sandbox.linux.init.closed_tree import ClosedTree, take_tree
from pinfold.sandbox.linux.keeper.build_pen import assemble, rehearse
from pinfold.sandbox.linux.limits import limit_user_namespaces
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import BuildError, end_with
from pinfold.sandbox.linux.protocol.command import BUILDER, SPAWNER
from pinfold.sandbox.linux.protocol.keeper import BuilderReport, NameRules, NotReady, PenPlan, Ready
from pinfold.sandbox.linux.protocol.operations import Operations
from pinfold.sandbox.linux.warden import mount_guard
from pinfold.sandbox.linux.warden.config import WardenConfig
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens

NEW = (
    namespaces.CLONE_NEWUSER
    | namespaces.CLONE_NEWNS
    | namespaces.CLONE_NEWPID
    | namespaces.CLONE_NEWNET
    | namespaces.CLONE_NEWIPC
    | namespaces.CLONE_NEWUTS
    | namespaces.CLONE_NEWCGROUP
)
PATIENCE = 30.0
"""Seconds that helpers have for what they build, and what was killed to end."""
PEN_PATIENCE = 8.0
"""Seconds that a pen's helper has: a pen takes a hundredth of that, and commands of other pens may stop its
spawner."""
STEP = 0.25


class NewProcess(NamedTuple):
    """What a helper has left in other namespaces, ready."""

    pid: int
    process: int
    """Its pidfd."""
    connection: int
    """Our end of the connection to it."""
    held: list[int]
    """Descriptors that it sent."""


def build_session(theirs: socket.socket) -> None:
    """New namespaces, and an init in them: a child of the keeper itself, which dies with it."""
    uid, gid = os.geteuid(), os.getegid()
    limit_user_namespaces()
    closed = prepare_mounts()
    namespaces.unshare(NEW)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    if namespaces.fork(namespaces.CLONE_PARENT) == 0:
        init.serve(theirs, closed)


def prepare_mounts() -> ClosedTree | None:
    """What only root of the machine can do, in mounts of its own, before there is a user namespace: it leaves
    the times of reading as they are, and takes a closed tree. Others get none.

    To look at a time of reading is a fiftieth of a `grep -r`, and a user namespace has it locked.
    """
    try:
        namespaces.unshare(namespaces.CLONE_NEWNS)
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
        mounts.mount_setattr(mounts.AT_FDCWD, "/", mounts.AT_RECURSIVE, turn_on=mounts.MOUNT_ATTR_NOATIME)
    except PermissionError:
        return None
    return take_tree()


def wait_for_plan(theirs: socket.socket, held: list[int], known: tuple[Operations, NameRules] | None) -> None:
    """Into the session's namespaces but its pids and a mount namespace of our own, then builds what comes.

    While it waits it rehearses with a plan that is `known`.
    """
    set_name(BUILDER)
    os.setsid()
    # Another descriptor of the keeper's, held here, would keep its peer from seeing the end.
    queue, peers = mount_guard.queue(), PeerWardens()
    kept = {0, 1, 2, theirs.fileno(), queue, *peers.descriptors, *held}
    close_all_but(kept)
    *namespaces_but_pids, pids = held
    for descriptor in namespaces_but_pids:
        namespaces.setns(descriptor)
    namespaces.unshare(namespaces.CLONE_NEWNS)
    if known:
        operations, names = known
        rehearse(operations, rules_of(names), peers)
        close_all_but(kept)
    plan, connections = channel.receive(theirs, PenPlan)
    host, *gate = (socket.socket(fileno=connection) for connection in connections)
    rules = rules_of(plan.names)
    config = WardenConfig(plan.operations, rules, host, gate[0] if gate else None, plan.lent, queue, peers)
    assemble(theirs, pids, plan.filters, config)


@lru_cache(maxsize=1)
def rules_of(names: NameRules) -> tuple[NameRule, ...]:
    """Made before, where the plan that comes has the names of the one that was rehearsed."""
    return tuple(map(rule_from, names.rows))


def begin(build: Callable[[socket.socket], None]) -> tuple[int, socket.socket]:
    """A helper of ours that builds something: its pid, and our end of the connection to it."""
    ours, theirs = channel.pair()
    channel.name_senders(ours, True)
    pid = os.fork()
    if pid == 0:
        ours.close()
        end_with(lambda: build(theirs), theirs)
    theirs.close()
    return pid, ours


def finish(ours: socket.socket, patience: float = PATIENCE) -> NewProcess:
    """The process that a helper leaves. Nothing stays open of one that was killed meanwhile."""
    try:
        report, held, pid = first_report(ours, patience)
    except channel.ChannelClosed:
        raise BuildError("the sandbox builder exited without reporting an error") from None
    if isinstance(report, NotReady):
        raise BuildError(report.why)
    if not isinstance(report, Ready) or not pid:
        raise BuildError("the sandbox builder sent an unknown report")
    channel.name_senders(ours, False)
    ours.settimeout(None)
    try:
        process = os.pidfd_open(pid)
    except OSError:
        for descriptor in held:
            os.close(descriptor)
        raise
    return NewProcess(pid, process, ours.detach(), held)


def first_report(ours: socket.socket, patience: float) -> tuple[BuilderReport, list[int], int]:
    """A helper's first report, its descriptors, and the pid of its sender. Meanwhile this resumes stopped
    spawners."""
    ours.settimeout(STEP)
    for _ in range(int(patience / STEP)):
        with contextlib.suppress(TimeoutError):
            return channel.receive_from(ours, BuilderReport)
        continue_stopped()
    raise BuildError(f"the sandbox builder did not answer within {patience:g} seconds")


def continue_stopped() -> None:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                _continue(int(name))


def _continue(pid: int) -> None:
    if not _is_stopped(pid):
        return
    process = os.pidfd_open(pid)
    try:
        if _is_stopped(pid):  # the number was not another's by the time we got hold of it
            signal.pidfd_send_signal(process, signal.SIGCONT)
    finally:
        os.close(process)


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        name, _, rest = file.read(256).partition(b"(")[2].rpartition(b") ")
    return name.decode(errors="replace") in (BUILDER, SPAWNER) and rest[:1] == b"T"
