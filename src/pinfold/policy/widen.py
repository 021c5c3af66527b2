"""A requested policy: what it narrows is applied, what it would widen is asked for by name.

The effective policy is the user's, narrowed; plus exactly what a person approved; met with the
administrator's cap. What the request does not mention stays as the user has it.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from pinfold.model.decision import Widening
from pinfold.model.errors import PolicyError
from pinfold.model.policy import NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.host_patterns import covers
from pinfold.policy.meet import STRICTEST_FIRST, meet
from pinfold.policy.paths import contains, outermost

# Fields by which a request can only ask for more: leaving them out asks for nothing.
GRANTS: dict[str, Callable[[str, str], bool]] = {
    "additional_readwrite_paths": contains,
    "additional_readonly_paths": contains,
    "unix_sockets": contains,
    "published_ports": str.__eq__,
}


def narrowed(
    user: SandboxPolicy, requested: SandboxPolicy | None, cap: SandboxPolicy
) -> tuple[SandboxPolicy, tuple[Widening, ...]]:
    """The user's policy with what the request narrows, and what the request would widen."""
    if requested is None:
        return user, ()
    if requested.type not in (PolicyType.UNSPECIFIED, *STRICTEST_FIRST):
        raise PolicyError(f"the requested policy has an unknown type: {requested.type!r}")
    if user.type is PolicyType.UNSPECIFIED:
        user = replace(user, type=PolicyType.WORKSPACE_READWRITE)
    # Grants are no narrowing: a request that names no paths or hosts does not give up the user's own.
    kept = {name: getattr(user, name) for name in (*GRANTS, "environment")}
    kept["network"] = replace(requested.network, allow=user.network.allow)
    policy = meet(user, replace(requested, **kept))
    return _within_cap(policy, cap), tuple(_widenings(user, requested))


def _within_cap(policy: SandboxPolicy, cap: SandboxPolicy) -> SandboxPolicy:
    """Only what the cap has an opinion on is met; an empty grant in it is no opinion."""
    silent = {name: getattr(policy, name) for name in GRANTS if not getattr(cap, name)}
    keep = cap.environment if cap.environment.keep else replace(cap.environment, keep=policy.environment.keep)
    return meet(policy, replace(cap, environment=keep, **silent)) if cap != SandboxPolicy() else policy


def with_approved(policy: SandboxPolicy, approved: Iterable[Widening], cap: SandboxPolicy) -> SandboxPolicy:
    """The policy plus exactly these, met with the administrator's cap."""
    for wish in approved:
        policy = replace(policy, **_added(policy, wish))
    return _within_cap(policy, cap)


def _widenings(user: SandboxPolicy, requested: SandboxPolicy) -> Iterator[Widening]:
    yield from _type_widening(user, requested)
    if requested.network_access and not user.network_access:
        yield Widening("network_access", "true")
    if requested.block_git_writes is False and user.block_git_writes:
        yield Widening("block_git_writes", "false")
    if requested.disable_tmp_write is False and user.disable_tmp_write:
        yield Widening("disable_tmp_write", "false")
    for name, has in GRANTS.items():
        held = [str(value) for value in getattr(user, name)]
        for value in getattr(requested, name):
            if not any(has(owned, str(value)) for owned in held):
                yield Widening(name, str(value))
    for host in requested.network.allow or ():
        if not user.network_access and not any(covers(owned, host) for owned in user.network.allow or ()):
            yield Widening("network", host)


def _type_widening(user: SandboxPolicy, requested: SandboxPolicy) -> Iterator[Widening]:
    if requested.type is PolicyType.UNSPECIFIED:
        return
    if STRICTEST_FIRST.index(requested.type) > STRICTEST_FIRST.index(user.type):
        yield Widening("type", requested.type.name)


def _added(policy: SandboxPolicy, wish: Widening) -> dict[str, object]:
    match wish.field:
        case "type":
            return {"type": PolicyType[wish.value]}
        case "network_access" | "block_git_writes" | "disable_tmp_write":
            return {wish.field: wish.value == "true"}
        case "published_ports":
            return {wish.field: tuple(sorted({*policy.published_ports, int(wish.value)}))}
        case "network":
            allow = tuple(sorted({*(policy.network.allow or ()), wish.value}))
            return {"network": NetworkRules(allow=allow, deny=policy.network.deny)}
        case field if field in GRANTS:
            return {field: outermost((*getattr(policy, field), wish.value))}
    raise PolicyError(f"`{wish.field}` is nothing a policy can be given")
