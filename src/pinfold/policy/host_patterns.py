"""Which host patterns lie in which, for policies that meet.

Patterns are compared as they are written in canonical spelling; networks in CIDR notation only with
themselves and with single addresses.
"""

from collections.abc import Iterable

from pinfold.policy.hosts import matches, split_port


def common_hosts(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """The patterns for what both sides let through."""
    left, right = {pattern.lower() for pattern in left}, {pattern.lower() for pattern in right}
    both = {
        narrowest
        for one in left
        for other in right
        for narrowest in [_narrower(one, other)]
        if narrowest is not None
    }
    return tuple(sorted(p for p in both if not any(q != p and covers(q, p) for q in both)))


def _narrower(one: str, other: str) -> str | None:
    if covers(one, other):
        return other
    if covers(other, one):
        return one
    return _at_port(one, other)


def _at_port(one: str, other: str) -> str | None:
    """`*.x` and `a.x:443` share `a.x:443`; `*.x:443` and `a.x` share `a.x:443`, which neither contains."""
    (name, port), (other_name, other_port) = split_port(one), split_port(other)
    if (port is None) == (other_port is None):
        return None
    wanted = port if port is not None else other_port
    if covers(name, other_name):
        return f"{other_name}:{wanted}"
    return f"{name}:{wanted}" if covers(other_name, name) else None


def covers(outer: str, inner: str) -> bool:
    """Whether every host that `inner` names is named by `outer` too."""
    if outer == inner:
        return True
    (name, port), (inner_name, inner_port) = split_port(outer), split_port(inner)
    if port is not None and port != inner_port:
        return False
    if name in ("*", inner_name):
        return True
    if inner_name.startswith("*."):
        return name.startswith("*.") and inner_name.endswith(name[1:])
    if "*" in inner_name or "/" in inner_name:
        return False
    try:
        return matches(name, inner_name, 0)
    except ValueError:
        return False
