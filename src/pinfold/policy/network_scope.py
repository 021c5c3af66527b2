"""The hosts that one effective policy allows: the network settings, narrowed and widened by it. Pure.

The settings say what the user allows. A request may have narrowed the policy, a person may have widened it,
and it was met with the administrator's cap. Hosts that the settings deny or remove later count at once.
"""

from typing import NamedTuple

from msgspec.structs import replace

from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import NetworkAccess, Settings

LOOPBACK = "127.0.0.1"
ENTRIES = ("network.allow[", "network.deny[")
ANY_OTHER_PORT = 9
"""A port (discard) that represents all ports that no rule names."""


class PenReach(NamedTuple):
    """The hosts that a pen was built with."""

    policy: SandboxPolicy
    written: tuple[str, ...]
    """The hosts that the settings named at that time."""


def allows_network(policy: SandboxPolicy, settings: Settings) -> bool:
    """Whether any host can be reached, or be asked for."""
    network = settings_under(policy, settings).network
    match network.access:
        case NetworkAccess.ALL | NetworkAccess.ASK:
            return True
        case NetworkAccess.RULES:
            return bool(network.allow)
    return False


def settings_under(policy: SandboxPolicy, settings: Settings) -> Settings:
    """The settings by which connections under this policy are judged."""
    written, rules = settings.network, policy.network
    allow = written.allow if rules.allow is None else rules.allow
    deny = tuple(dict.fromkeys((*written.deny, *rules.deny)))
    access = _access(policy, settings)
    if (access, allow, deny) == (written.access, written.allow, written.deny):
        return settings
    # Where each entry was written is known by its place in the list, which is another's now.
    origins = {key: origin for key, origin in settings.origins.items() if not key.startswith(ENTRIES)}
    return replace(settings, network=replace(written, access=access, allow=allow, deny=deny), origins=origins)


def current_reach(pen: PenReach, settings: Settings) -> SandboxPolicy:
    """The pen's policy without hosts that the settings named then and name no longer."""
    policy, now = pen.policy, settings.network.allow
    allow, gone = policy.network.allow, {*pen.written}.difference(now)
    if not allow or not gone:
        return policy
    from pinfold.policy.hosts import covers

    kept = tuple(
        each
        for each in allow
        if any(covers(named, each) for named in now) or not any(covers(named, each) for named in gone)
    )
    return replace(policy, network=replace(policy.network, allow=kept))


def lent_ports(policy: SandboxPolicy, settings: Settings) -> dict[int, str]:
    """Ports of this machine's loopback that commands may reach, each with the host that grants it.

    A sandbox has its own loopback. An entry without a port lends none, since it would replace every port.
    """
    network = settings_under(policy, settings).network
    if network.access is NetworkAccess.NONE or not any(":" in entry for entry in network.allow):
        return {}
    from pinfold.model.hosts import special_kind
    from pinfold.policy.hosts import names_special, parse_pattern

    lent: dict[int, str] = {}
    for pattern in map(parse_pattern, network.allow):
        if pattern.port is None:
            continue
        if special_kind(pattern.name.partition("/")[0]) == "loopback" and "/" not in pattern.name:
            lent[pattern.port] = pattern.name
        elif names_special(str(pattern), LOOPBACK):
            lent[pattern.port] = LOOPBACK
    return lent


def ports_of(settings: Settings) -> tuple[int, ...]:
    """The ports that may differ in a decision: those that rules name, and one for all others."""
    # Imported here: most commands reach no host, and every one asks whether it could.
    from pinfold.policy.hosts import parse_pattern

    named = {parse_pattern(entry).port for entry in (*settings.network.allow, *settings.network.deny)}
    return tuple(sorted({port for port in named if port} | {ANY_OTHER_PORT}))


def _access(policy: SandboxPolicy, settings: Settings) -> NetworkAccess:
    written = settings.network.access
    if policy.network_access:
        return NetworkAccess.ALL
    if written in (NetworkAccess.ALL, NetworkAccess.NONE):
        # All is closed but what was granted or kept by name.
        return NetworkAccess.RULES if policy.network.allow else NetworkAccess.NONE
    return written
