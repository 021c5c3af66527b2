"""What a policy's pen would be built from, as the file system is now, and whether an existing pen is as that.

Descriptors do not pass from one pen into another, nor do connections that could carry them. So a pen whose
draft comes out as before stays in use: the next commands reach what its commands left running.

Before each command the host checks that the mounts that protect and hide things are still where they were
put. Facts, measured on Linux 6.18:
- A mount on a file is lost when the host replaces that file, as editors and `git config` do (a new file,
  renamed over the old): inside, the new one is open. A directory that is replaced loses its mount, too.
- So the host compares the things that a pen protects and hides with what was there when it was built. If one
  is another by now, it builds the next pen anew. What runs in the old pen meanwhile sees the new file.
- The number of an inode says little: ext4 gives a deleted file's number to the next one. But a new inode
  has a new change time. Only where that differs the host asks for the birth time, which costs more; where the
  file system does not know it, the thing counts as another.
- Kernels before 6.13, and some file systems since, take the time of the last tick: what changed less than a
  tick ago may be replaced by what has the same time. Such a time is not relied on.

Accepted, and named in docs/sandbox.md: beyond `MOST` things nothing is compared, since it would cost every
command more than a microsecond for each.
"""

import os
from collections.abc import Collection, Iterable
from time import time_ns
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pinfold.kernel.files import birth
from pinfold.model.machine import Machine
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.sandbox.backend import Elevation, Enforcement, Found, Outside, SandboxLayer, Survey
from pinfold.sandbox.compat import fit, require_accepted
from pinfold.sandbox.linux.host.agent_servers import agents_among
from pinfold.sandbox.linux.host.paths import ShownPaths, look, open_own, shown_in
from pinfold.sandbox.linux.protocol.keeper import NameRules
from pinfold.sandbox.plan import Plan, plan_pen, require_possible

MOST = 500
TICK = 20_000_000
"""Nanoseconds; the longest that a kernel is built with is half of it."""
UNSURE = -1
"""No time of change: the time of birth is asked for."""


class Identity(Struct):
    number: tuple[int, int]
    """Device and inode."""
    changed: int
    """When it was last found to be the same: a directory changes with each name in it."""
    born: tuple[int, int] | None


Snapshot = tuple[tuple[str, Identity | None], ...]


def snapshot(paths: Iterable[str]) -> Snapshot:
    """What is at these paths now."""
    found = tuple((path, identity(path)) for path in paths)
    return found if len(found) <= MOST else ()


def is_unchanged(held: Snapshot) -> bool:
    """Whether it is still the same."""
    return all(_is_same(path, then) for path, then in held)


def identity(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
        return Identity((status.st_dev, status.st_ino), _sure(status), birth(path))
    except OSError:
        return None


def _is_same(path: str, then: Identity | None) -> bool:
    try:
        status = os.lstat(path)
        if then is None or then.number != (status.st_dev, status.st_ino):
            return False
        if then.changed != status.st_ctime_ns:
            if then.born is None or then.born != birth(path):
                return False
            then.changed = _sure(status)
        return True
    except OSError:
        return then is None


def _sure(status: os.stat_result) -> int:
    """A time of change that nothing which comes later can have."""
    return status.st_ctime_ns if status.st_ctime_ns < time_ns() - TICK else UNSURE


class PenDraft(NamedTuple):
    plan: Plan
    enforcement: Enforcement
    names: NameRules
    asks: bool
    leads_out: bool
    lent: dict[int, str]
    held: Snapshot
    """What is compared before each command; nothing where that is too much."""
    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    shown: ShownPaths
    """What is to be seen in hidden directories."""

    def is_as(self, then: "PenDraft") -> bool:
        """Whether a pen that was built by the other one is what this one asks for.

        Preconditions: what the other one holds is still the same (`is_unchanged`).
        """
        ours = (self.plan.operations, self.names, self.asks, self.leads_out, self.lent)
        theirs = (then.plan.operations, then.names, then.asks, then.leads_out, then.lent)
        return bool(self.held and then.held) and ours == theirs


def draft_pen(
    policy: SandboxPolicy,
    roots: tuple[str, ...],
    machine: Machine,
    survey: Survey | None,
    accepted: Collection[SandboxLayer],
    outside: Outside | None,
    elevation: Elevation | None,
    scratch: str = "",
) -> PenDraft:
    """Raises where no pen can hold the policy. `scratch` is as in `ExistingPaths`."""
    if policy.type is not PolicyType.WORKSPACE_READONLY:
        everywhere = (path for path in policy.additional_readwrite_paths if path == "/")
        require_possible((*roots, *everywhere))  # before a survey of the whole machine
    found = survey(policy) if survey else Found()
    hidden = (*found.hidden, *found.closed)
    shown = shown_in(policy, hidden)
    places = look(
        policy, roots, found.protected, hidden, found.writable, found.placed, found.links, shown.found
    )
    agents = (*map(real_path, found.agents), *agents_among(place.path for place in places.sockets))
    places = replace(places, agents=agents, scratch=scratch)
    if machine.superuser:
        places = open_own(places, found.home)
    # Before the pen is built: what is replaced while that lasts is found different by the next command.
    held = (
        *snapshot(place.path for place in (*places.roots, *places.writable, *places.readable)),
        *snapshot(place.path for place in (*places.protected, *places.hidden, *places.sockets)),
        *snapshot((*places.links, *([scratch] if scratch else []))),
    )
    asks = elevation is not None and elevation.asks(policy)
    reads = elevation is not None and elevation.notes_reads
    wanted = plan_pen(policy, places, asks=asks, notes_reads=reads)
    plan, enforcement = fit(wanted, machine, policy)
    require_accepted(enforcement, accepted)
    leads_out = outside is not None and outside.leads_out(policy)
    return PenDraft(
        plan,
        enforcement,
        NameRules(tuple(rule.plain() for rule in found.names)),
        asks,
        leads_out,
        outside.lent_ports(policy) if outside and leads_out else {},
        held,
        tuple(place.path for place in places.protected),
        tuple(place.path for place in places.hidden),
        shown,
    )
