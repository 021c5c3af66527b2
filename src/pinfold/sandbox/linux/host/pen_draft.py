"""What a policy's pen would be built by, as the file system is now: enough to know whether a pen is that.

Descriptors do not pass from one pen into another, nor do connections that could carry them. So a pen whose
draft comes out as before stays in use: the next commands reach what its commands left running.
"""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from pinfold.model.machine import Machine
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.symlinks import real_path
from pinfold.sandbox.backend import Elevation, Found, Outside, Survey
from pinfold.sandbox.compat import fit, require_accepted
from pinfold.sandbox.enforcement import Enforcement, Layer
from pinfold.sandbox.linux.host.agent_servers import agents_among
from pinfold.sandbox.linux.host.mount_check import Held, hold
from pinfold.sandbox.linux.host.paths import look, open_own
from pinfold.sandbox.linux.protocol.keeper import NameRules
from pinfold.sandbox.plan import Plan, plan_pen, require_possible


class Draft(NamedTuple):
    plan: Plan
    enforcement: Enforcement
    names: NameRules
    asks: bool
    leads_out: bool
    lent: dict[int, str]
    held: Held
    """What is compared before each command; nothing where that is too much."""
    protected: tuple[str, ...]
    hidden: tuple[str, ...]

    def is_as(self, then: "Draft") -> bool:
        """Whether a pen that was built by the other one is what this one asks for.

        Preconditions: what the other one holds is still the same (`is_held`).
        """
        ours = (self.plan.operations, self.names, self.asks, self.leads_out, self.lent)
        theirs = (then.plan.operations, then.names, then.asks, then.leads_out, then.lent)
        return bool(self.held and then.held) and ours == theirs


def draft(
    policy: SandboxPolicy,
    roots: tuple[str, ...],
    machine: Machine,
    survey: Survey | None,
    accepted: Collection[Layer],
    outside: Outside | None,
    elevation: Elevation | None,
) -> Draft:
    """Raises where no pen can hold the policy."""
    if policy.type is not PolicyType.WORKSPACE_READONLY:
        everywhere = (path for path in policy.additional_readwrite_paths if path == "/")
        require_possible((*roots, *everywhere))  # before a survey of the whole machine
    found = survey(policy) if survey else Found()
    hidden = (*found.hidden, *found.closed)
    places = look(policy, roots, found.protected, hidden, found.writable, found.placed, found.links)
    named = (real_path(found.agent),) if found.agent else ()
    places = replace(places, agents=(*named, *agents_among(place.path for place in places.sockets)))
    if machine.superuser:
        places = open_own(places, found.home)
    # Before the pen is built: what is replaced while that lasts is found different by the next command.
    held = (
        *hold(place.path for place in (*places.roots, *places.writable, *places.readable)),
        *hold(place.path for place in (*places.protected, *places.hidden, *places.sockets)),
        *hold(places.links),
    )
    asks = elevation is not None and elevation.asks(policy)
    reads = elevation is not None and elevation.notes_reads
    wanted = plan_pen(policy, places, asks=asks, notes_reads=reads)
    plan, enforcement = fit(wanted, machine, policy)
    require_accepted(enforcement, accepted)
    leads_out = outside is not None and outside.leads_out(policy)
    return Draft(
        plan,
        enforcement,
        NameRules(tuple(rule.plain() for rule in found.names)),
        asks,
        leads_out,
        outside.lent_ports(policy) if outside and leads_out else {},
        held,
        tuple(place.path for place in places.protected),
        tuple(place.path for place in places.hidden),
    )
