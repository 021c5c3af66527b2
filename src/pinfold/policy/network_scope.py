"""Which hosts a policy leaves open: the settings about the network, as one effective policy has them. Pure.

The settings say what the user has; a policy may have been narrowed by a request, or widened by a person, and
was met with the administrator's cap. What the settings have denied, switched off or taken from their
hosts since counts at once.
"""

from typing import NamedTuple

from msgspec.structs import replace

from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import NetworkAccess, Settings

LOOPBACK = "127.0.0.1"
ENTRIES = ("network.allow[", "network.deny[")
ANY_OTHER_PORT = 9
"""A port (discard) that stands for those which no rule speaks of."""


class PenReach(NamedTuple):
    """What a pen was built with."""

    policy: SandboxPolicy
    written: tuple[str, ...]
    """The hosts that settings named then."""


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
    """Its policy without the hosts that it has of settings which do not name them any more."""
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
    """Ports of this machine's loopback that are granted by number, and the host each is granted as.

    Inside, loopback is the session's own. An entry without a port lends none: it would shadow every one.
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
    """Ports of which one is as open as any: those that rules speak of, and one more."""
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
