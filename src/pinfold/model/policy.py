"""What a command may touch: `SandboxPolicy` and the types of its fields.

The first seven fields are `agent.v1.SandboxPolicy`, with its protobuf numbers; enforcement needs the rest.
`None` always means "no opinion", which is not the same as "no". `policy.meet` combines two policies;
`policy.json_format` and `policy.protobuf_format` serialize one.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

IgnoreMapping: TypeAlias = dict[str, tuple[str, ...]]
"""Directory -> the ignore patterns that apply below it, in the order git would read them."""
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108
"""Paths where a pen has directories of its own, unless the machine's are granted."""


class PolicyType(IntEnum):
    """How much the sandbox confines. The numbers are the wire's."""

    UNSPECIFIED = 0
    INSECURE_NONE = 1
    WORKSPACE_READWRITE = 2
    WORKSPACE_READONLY = 3


POLICY_WORDS = {
    "read-only": PolicyType.WORKSPACE_READONLY,
    "workspace-write": PolicyType.WORKSPACE_READWRITE,
    "danger-full-access": PolicyType.INSECURE_NONE,
}
"""How people write a type, the strictest first."""


class Level(IntEnum):
    """How much a policy allows; a lower level is stricter."""

    SANDBOX_READONLY = 0
    SANDBOX_READONLY_NETWORK = 5
    SANDBOX_NO_NETWORK = 10
    SANDBOX_NETWORK = 20
    UNSANDBOXED = 30


class NetworkRules(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which hosts the gate connects to."""

    allow: tuple[str, ...] | None = None
    """Allowed hosts; None is no opinion, an empty tuple allows no host."""
    deny: tuple[str, ...] = ()
    """Hosts that are always denied."""


class EnvironmentRules(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which environment variables reach the command."""

    keep: tuple[str, ...] = ()
    """Names kept although scrubbing would remove them."""
    drop: tuple[str, ...] = ()
    """Names removed although scrubbing would keep them."""


class Limits(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Ceilings of one command; None is no ceiling."""

    timeout: float | None = None
    """Seconds of wall clock."""
    memory: int | None = None
    """Bytes."""
    processes: int | None = None
    output: int | None = None
    """Bytes of standard output and standard error kept, each."""


class SandboxPolicy(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a command may touch."""

    type: PolicyType = PolicyType.UNSPECIFIED
    network_access: bool | None = None
    additional_readwrite_paths: tuple[str, ...] = ()
    additional_readonly_paths: tuple[str, ...] = ()
    debug_output_dir: str | None = None
    """Where debug output goes; the empty string means nowhere, even if another layer names a directory."""
    block_git_writes: bool | None = None
    disable_tmp_write: bool | None = None

    hidden: tuple[str, ...] = ()
    """Paths that the command cannot look into."""
    protected: tuple[str, ...] = ()
    """Paths and names the command may not write, even inside a writable root."""
    ignore_mapping: IgnoreMapping = {}
    network: NetworkRules = NetworkRules()
    unix_sockets: tuple[str, ...] = ()
    """Unix sockets of the host that the command may connect to."""
    published_ports: tuple[int, ...] = ()
    """Ports inside that the host may reach on its loopback."""
    environment: EnvironmentRules = EnvironmentRules()
    limits: Limits = Limits()
    env_files: tuple[str, ...] = ()
    """`.env` files that the command cannot look into. A person may grant one, which removes it from this
    list."""


class Cap(Struct, frozen=True):
    """The most that any policy may grant, set by the administrator: it bounds later approvals too.

    An empty grant in a policy adds nothing, so a policy alone cannot tell "none" from "no opinion".
    """

    policy: SandboxPolicy = SandboxPolicy()
    grants: tuple[str, ...] = ()
    """The granting fields that are limited to what `policy` has there, be it nothing: additional paths of
    both kinds, `unix_sockets`, `published_ports` and, for its `keep`, `environment`."""
