"""Two policies become the one that is no wider than either: `meet`.

INVARIANT: `meet` is commutative, associative and idempotent (on canonical policies), its result is
nowhere wider than either side, and every field of `SandboxPolicy` has a row in `RULES`.

`None`, an empty tuple and an empty mapping mean "no opinion" or "nothing added", as the model says.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import fields

from pinfold.model.policy import EnvironmentRules, Limits, NetworkRules, PolicyType, SandboxPolicy
from pinfold.policy.hosts import all_hosts, common_hosts
from pinfold.policy.ignore import united
from pinfold.policy.paths import common, outermost

# From the strictest to the loosest; a type without an opinion is not among them.
STRICTEST_FIRST = (PolicyType.WORKSPACE_READONLY, PolicyType.WORKSPACE_READWRITE, PolicyType.INSECURE_NONE)


def meet(a: SandboxPolicy, b: SandboxPolicy) -> SandboxPolicy:
    """The policy that allows what both allow."""
    return SandboxPolicy(**{name: rule(getattr(a, name), getattr(b, name)) for name, rule in RULES.items()})


def _type(a: PolicyType, b: PolicyType) -> PolicyType:
    opinions = [opinion for opinion in (a, b) if opinion is not PolicyType.UNSPECIFIED]
    return min(opinions, key=STRICTEST_FIRST.index, default=PolicyType.UNSPECIFIED)


def _both(a: bool | None, b: bool | None) -> bool | None:
    return b if a is None else a if b is None else a and b


def _either(a: bool | None, b: bool | None) -> bool | None:
    return b if a is None else a if b is None else a or b


def _union(a: Iterable[str], b: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*a, *b}))


def _outer_union(a: Iterable[str], b: Iterable[str]) -> tuple[str, ...]:
    """Entries that are patterns stay as they are; of absolute paths the outermost are enough."""
    every = {*a, *b}
    paths = {entry for entry in every if entry.startswith("/")}
    return (*outermost(paths), *sorted(every - paths))


def _shared(a: Iterable[Any], b: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted({*a} & {*b}))


def _directory(a: str | None, b: str | None) -> str | None:
    """Kept if one side has it or both agree. A disagreement is the empty string, which nothing undoes."""
    return b if a is None else a if b is None or a == b else ""


def _network(a: NetworkRules, b: NetworkRules) -> NetworkRules:
    if a.allow is None or b.allow is None:
        only = a.allow if b.allow is None else b.allow
        allow = None if only is None else common_hosts(only, only)
    else:
        allow = common_hosts(a.allow, b.allow)
    return NetworkRules(allow=allow, deny=all_hosts(a.deny, b.deny))


def _environment(a: EnvironmentRules, b: EnvironmentRules) -> EnvironmentRules:
    return EnvironmentRules(keep=_shared(a.keep, b.keep), drop=_union(a.drop, b.drop))


def _limits(a: Limits, b: Limits) -> Limits:
    def smaller(name: str) -> Any:
        set_by = [value for value in (getattr(a, name), getattr(b, name)) if value is not None]
        return min(set_by, default=None)

    return Limits(**{field.name: smaller(field.name) for field in fields(Limits)})


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "type": _type,
    "network_access": _both,
    "additional_readwrite_paths": common,
    "additional_readonly_paths": common,
    "debug_output_dir": _directory,
    "block_git_writes": _either,
    "disable_tmp_write": _either,
    "hidden": _outer_union,
    "protected": _outer_union,
    "ignore_mapping": united,
    "network": _network,
    "unix_sockets": common,
    "published_ports": _shared,
    "environment": _environment,
    "limits": _limits,
    "env_files": _union,
}
