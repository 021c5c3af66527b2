"""Which hosts two lists of patterns share, for policies that meet.

Patterns are compared in their one spelling (`hosts.parse_pattern`). What is no pattern names no host: it is
left out of what is shared, and nothing covers it.
"""

from collections.abc import Iterable, Iterator

from pinfold.policy.hosts import Pattern, contains_name, parse_pattern


def common_hosts(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """The patterns for what both sides let through."""
    ours, theirs = set(_parsed(left)), set(_parsed(right))
    return _spelled({shared for one in ours for other in theirs for shared in _shared(one, other)})


def all_hosts(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """The patterns of both sides, each once; what is no pattern is kept as it is written."""
    return tuple(sorted({respelled(text) for text in (*left, *right)}))


def respelled(text: str) -> str:
    """The pattern's one spelling."""
    return next((str(pattern) for pattern in _parsed([text])), text)


def covers(outer: str, inner: str) -> bool:
    """Whether every host that `inner` names is named by `outer` too."""
    return any(_covers(one, other) for one in _parsed([outer]) for other in _parsed([inner]))


def is_pattern(text: str) -> bool:
    return any(True for _ in _parsed([text]))


def _parsed(texts: Iterable[str]) -> Iterator[Pattern]:
    for text in texts:
        try:
            yield parse_pattern(text)
        except ValueError:
            continue


def _covers(outer: Pattern, inner: Pattern) -> bool:
    return outer.port in (None, inner.port) and contains_name(outer.name, inner.name)


def _shared(one: Pattern, other: Pattern) -> Iterator[Pattern]:
    """`*.x:443` and `a.x` share `a.x:443`, which is neither of them."""
    ports = {one.port, other.port} - {None}
    if len(ports) <= 1:
        port = next(iter(ports), None)
        if contains_name(one.name, other.name):
            yield Pattern(other.name, port)
        elif contains_name(other.name, one.name):
            yield Pattern(one.name, port)


def _spelled(patterns: set[Pattern]) -> tuple[str, ...]:
    """Without those that another one covers."""
    kept = (p for p in patterns if not any(q != p and _covers(q, p) for q in patterns))
    return tuple(sorted(map(str, kept)))
