"""How much a policy allows, as one of five levels.

A level serves to compare policies and to show one to a person; enforcement always uses the whole policy. The
level depends on the type and the network switch alone, so a granted host does not change it.
"""

from msgspec.structs import replace

from pinfold.model.decision import Decision
from pinfold.model.errors import PolicyError
from pinfold.model.policy import Level, PolicyType, SandboxPolicy

# (without network, with network)
_LEVELS = {
    PolicyType.WORKSPACE_READONLY: (Level.SANDBOX_READONLY, Level.SANDBOX_READONLY_NETWORK),
    PolicyType.WORKSPACE_READWRITE: (Level.SANDBOX_NO_NETWORK, Level.SANDBOX_NETWORK),
    PolicyType.INSECURE_NONE: (Level.UNSANDBOXED, Level.UNSANDBOXED),
}


def level(policy: SandboxPolicy) -> Level:
    """The level of a policy whose type is settled.

    UNSPECIFIED is "no opinion", so it has no level: the caller first replaces it with the user's default. To
    read it as a level would turn silence into an answer, and the usual answer (unsandboxed) is the worst.
    """
    known = require_type(policy.type)
    if known is PolicyType.UNSPECIFIED:
        raise PolicyError("a policy without a type has no level", help="resolve it to the user's default")
    # No opinion on the network counts as none: only a clear yes opens it.
    return _LEVELS[known][policy.network_access is True]


def level_of(decision: Decision) -> Level:
    """The level of a decision: that of its policy, or the highest where a command leaves the sandbox."""
    is_outside = bool(decision.commands) and not decision.sandboxed
    return Level.UNSANDBOXED if is_outside else settled_level(decision.policy)


def settled_level(policy: SandboxPolicy) -> Level:
    """The level of a user's policy; a policy without a type is sandboxed too (`widen`)."""
    is_settled = policy.type is not PolicyType.UNSPECIFIED
    return level(policy if is_settled else replace(policy, type=PolicyType.WORKSPACE_READWRITE))


TOLD = {
    Level.SANDBOX_READONLY: "read-only, no network",
    Level.SANDBOX_READONLY_NETWORK: "read-only, network",
    Level.SANDBOX_NO_NETWORK: "workspace-write, no network",
    Level.SANDBOX_NETWORK: "workspace-write, network",
    Level.UNSANDBOXED: "unsandboxed",
}
"""Each level in words. Hosts that rules or answers allow do not change it."""


def require_type(value: int) -> PolicyType:
    """The type a value names; structs are not checked when they are built, so any value may arrive."""
    try:
        return PolicyType(value)
    except ValueError:
        raise PolicyError(f"unknown policy type `{value}`") from None
