"""A requested policy: what it narrows is applied, what it would widen is asked for by name.

The effective policy is the user's, narrowed; plus exactly what a person approved; met with the
administrator's cap. INVARIANT: what the request does not mention stays as the user has it.
"""

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from msgspec.structs import fields, replace

from pinfold.model.decision import Widening
from pinfold.model.errors import PolicyError
from pinfold.model.policy import Cap, EnvironmentRules, NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.hosts import all_hosts, common_hosts, covers, is_pattern, respelled
from pinfold.policy.meet import RULES, STRICTEST_FIRST, meet
from pinfold.policy.paths import contains, normalised, outermost

# Fields by which a request can only ask for more: naming some does not give up the others.
PATHS = ("additional_readwrite_paths", "additional_readonly_paths", "unix_sockets")
# Fields with a closed and an open position; the value is the open one. No opinion is not open.
SWITCHES = {"network_access": True, "block_git_writes": False, "disable_tmp_write": False}


def narrowed(
    user: SandboxPolicy, requested: SandboxPolicy | None, cap: Cap
) -> tuple[SandboxPolicy, tuple[Widening, ...]]:
    """The user's policy with what the request narrows, and what the request would widen."""
    if requested is None:
        return user, ()
    if requested.type not in (PolicyType.UNSPECIFIED, *STRICTEST_FIRST):
        raise PolicyError(f"the requested policy has an unknown type: {requested.type!r}")
    silent = SandboxPolicy()
    mentioned = [field.name for field in fields(SandboxPolicy)]
    mentioned = [name for name in mentioned if getattr(requested, name) != getattr(silent, name)]
    narrower = {name: _narrower(name, user, requested) for name in mentioned}
    wanted = (each for name in mentioned for each in _wanted(name, user, requested))
    return _within_cap(replace(user, **narrower), cap), tuple(dict.fromkeys(wanted))


def with_approved(policy: SandboxPolicy, approved: Iterable[Widening], cap: Cap) -> SandboxPolicy:
    """The policy plus exactly these, met with the administrator's cap."""
    for widening in approved:
        policy = replace(policy, **_added(policy, widening))
    return _within_cap(policy, cap)


def _within_cap(policy: SandboxPolicy, cap: Cap) -> SandboxPolicy:
    if cap == Cap():
        return policy
    silent = {name: getattr(policy, name) for name in (*PATHS, "published_ports") if name not in cap.grants}
    if "environment" not in cap.grants:
        silent["environment"] = replace(cap.policy.environment, keep=policy.environment.keep)
    return meet(policy, replace(cap.policy, **silent))


def _narrower(name: str, user: SandboxPolicy, requested: SandboxPolicy) -> Any:
    """The field as the user has it, or narrower where the request is."""
    ours, theirs = getattr(user, name), getattr(requested, name)
    if name in SWITCHES:
        return ours if theirs is SWITCHES[name] else theirs
    match name:
        case "type":
            return min(_type(user), theirs, key=STRICTEST_FIRST.index)
        case "debug_output_dir":
            return "" if theirs == "" else ours
        case "network":
            return NetworkRules(_narrower_hosts(user, requested), all_hosts(ours.deny, theirs.deny))
        case "environment":
            return EnvironmentRules(ours.keep, tuple(sorted({*ours.drop, *theirs.drop})))
        case "hidden" | "protected" | "ignore_mapping" | "limits" | "env_files":
            return RULES[name](ours, theirs)
    return ours


def _narrower_hosts(user: SandboxPolicy, requested: SandboxPolicy) -> tuple[str, ...] | None:
    """Hosts beside `network_access=false` are all that the request wants; alone they are hosts it adds."""
    if requested.network_access is not False or requested.network.allow is None:
        return user.network.allow
    return common_hosts(_hosts(user, requested), requested.network.allow)


def _hosts(user: SandboxPolicy, requested: SandboxPolicy) -> tuple[str, ...]:
    """The user's hosts among which the request may choose."""
    is_open = user.network_access is True
    if is_open and (requested.network_access is not False or user.network.allow is None):
        return ("*",)
    return user.network.allow or ()


def _wanted(name: str, user: SandboxPolicy, requested: SandboxPolicy) -> Iterator[Widening]:
    """What the request would have beyond the user's."""
    ours, theirs = getattr(user, name), getattr(requested, name)
    if name in SWITCHES and theirs is SWITCHES[name] is not ours:
        yield Widening(name, "true" if theirs else "false")
    elif name in PATHS:
        yield from _beyond(name, ours, map(normalised, theirs), contains)
    match name:
        case "type" if STRICTEST_FIRST.index(theirs) > STRICTEST_FIRST.index(_type(user)):
            yield Widening(name, theirs.name)
        case "debug_output_dir" if theirs not in ("", ours):
            yield Widening(name, theirs)
        case "published_ports":
            yield from _beyond(name, map(str, ours), map(str, theirs), str.__eq__)
        case "network":
            asked = (respelled(host) for host in theirs.allow or () if is_pattern(host))
            yield from _beyond(name, _hosts(user, requested), asked, covers)
        case "environment":
            yield from _beyond(name, ours.keep, theirs.keep, _names)


def _beyond(
    name: str, held: Iterable[str], asked: Iterable[str], has: Callable[[str, str], bool]
) -> Iterator[Widening]:
    held = tuple(held)
    for value in asked:
        if value and not any(has(owned, value) for owned in held):
            yield Widening(name, value)


def _names(pattern: str, name: str) -> bool:
    """Whether a pattern of variables covers a name, or is the same pattern."""
    return pattern == name or (not {*"*?["} & {*name} and fnmatchcase(name, pattern))


def _type(user: SandboxPolicy) -> PolicyType:
    """A user without an opinion gets the sandbox all the same."""
    return PolicyType.WORKSPACE_READWRITE if user.type is PolicyType.UNSPECIFIED else user.type


def _added(policy: SandboxPolicy, widening: Widening) -> dict[str, object]:
    field, value = widening.field, widening.value
    if field in SWITCHES:
        return {field: value == "true"}
    if field in PATHS:
        closed = tuple(path for path in policy.env_files if path != value)
        return {field: outermost((*getattr(policy, field), value)), "env_files": closed}
    match field:
        case "type":
            return {field: PolicyType[value]}
        case "debug_output_dir":
            return {field: value}
        case "published_ports":
            return {field: tuple(sorted({*policy.published_ports, int(value)}))}
        case "network":
            return {field: replace(policy.network, allow=all_hosts(policy.network.allow or (), (value,)))}
        case "environment":
            keep = tuple(sorted({*policy.environment.keep, value}))
            return {field: replace(policy.environment, keep=keep)}
    raise PolicyError(f"`{field}` is nothing a policy can be given")
