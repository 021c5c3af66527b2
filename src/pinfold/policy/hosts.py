"""Host patterns: how one is written, whether it matches a host, and which hosts two lists share.

Patterns and hosts are brought into one canonical spelling (`model.hosts`, `parse_pattern`) before they are
compared. A text that is no pattern names no host: `common_hosts` leaves it out, and nothing covers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from pinfold.model.hosts import canonical, is_address, special_kind

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


class Pattern(Struct, frozen=True):
    """The hosts that a rule names, in canonical spelling."""

    name: str
    """`*`, `*.x.y`, a host, or a network such as `10.0.0.0/8`."""
    port: int | None = None
    """None for every port."""

    def __str__(self) -> str:
        if self.port is None:
            return self.name
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


@lru_cache(4096)
def parse_pattern(text: str) -> Pattern:
    """The rule in `x.y`, `*.x.y`, `x.y:443`, an address, a network, `[v6]:port`, `*`; else a `ValueError`."""
    name, port = _split_port(text)
    if name == "*":
        return Pattern(name, port)
    if "/" in name:
        return Pattern(_network_name(name), port)
    host = canonical(name.removeprefix("*."))
    if not name.startswith("*."):
        return Pattern(host, port)
    if is_address(host):
        raise ValueError("`*.` must precede a name, not an address")
    return Pattern(f"*.{host}", port)


def require_pattern(text: str, key: str = "network.deny") -> None:
    """Raises `ValueError`, with one clear line, where the text is no rule about hosts, or none for a list."""
    name = parse_pattern(text).name
    if key != "network.allow":
        return
    if name == "*":
        raise ValueError('to allow every host, set `network.access = "all"` instead')
    if name.startswith("*.") and _is_for_sale(name[2:].split(".")):
        raise ValueError("anyone can register a name below it; name the hosts, or their owner's domain")
    if name in ("0.0.0.0/0", "::/0"):
        raise ValueError('to allow every address, set `network.access = "all"` instead')


# Domains that sell names, as far as people write them; the public suffix list has some thousand more.
_GENERIC = frozenset((
    "com", "net", "org", "edu", "gov", "mil", "int", "info", "biz", "name", "pro", "dev", "app", "xyz",
    "online", "site", "cloud", "tech", "store", "shop", "blog", "page", "live", "run", "link", "top", "club",
    "space", "website", "world", "life", "digital", "systems",
))  # fmt: skip
_SECOND = frozenset(("co", "com", "net", "org", "edu", "gov", "ac", "or", "ne", "go", "gob", "gouv"))


def _is_for_sale(labels: list[str]) -> bool:
    *above, last = labels
    is_country = len(last) == 2
    if not above:
        return is_country or last in _GENERIC
    return len(above) == 1 and is_country and above[0] in _SECOND


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in name or rest[:1] not in ("", ":"):
            raise ValueError("brackets enclose an IPv6 address, and only a port may follow them")
        return name, _port(rest[1:]) if rest else None
    name, colon, digits = text.partition(":")
    if not colon or ":" in digits:  # more than one colon is an IPv6 address
        return text, None
    return name, _port(digits)


def _port(digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise ValueError("the port after the colon must be a number from 1 to 65535")
    return int(digits)


def _network_name(text: str) -> str:
    """The network's one spelling; a network of one address is that address."""
    from ipaddress import IPv6Network, ip_network

    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError("the network is not in CIDR notation, such as `10.0.0.0/8`") from error
    if network.prefixlen == network.max_prefixlen:
        return canonical(str(network.network_address))
    return str(_as_ipv4(network) if isinstance(network, IPv6Network) else network)


# IPv6 networks whose addresses carry an IPv4 address, and after how many bits it begins.
_CARRIERS = (("::ffff:0:0/96", 96), ("64:ff9b::/96", 96), ("2002::/16", 16))
_SCATTERED = ("::/96", "2001::/32")


def _as_ipv4(network: IPv6Network) -> IPv4Network | IPv6Network:
    """Hosts that carry an IPv4 address are compared as that, so their networks must be."""
    from ipaddress import IPv4Network, IPv6Network

    for carrier, start in _CARRIERS:
        if network.subnet_of(IPv6Network(carrier)):
            address = int(network.network_address) >> (96 - start) & 0xFFFFFFFF
            return IPv4Network((address, min(32, network.prefixlen - start)))
    if any(network.subnet_of(IPv6Network(carrier)) for carrier in _SCATTERED):
        raise ValueError("pinfold reads hosts of this network as IPv4 addresses; write their IPv4 network")
    return network


def matches(pattern: str, host: str, port: int) -> bool:
    """Whether a rule names this canonical host and port."""
    rule = parse_pattern(pattern)
    return rule.port in (None, port) and contains_name(rule.name, host)


def contains_name(outer: str, inner: str) -> bool:
    """Whether all that `inner` names, `outer` does; both are names of a `Pattern`, and a host is one.

    INVARIANT: two names lie apart or one in the other, so what two rules share is always one of them.
    """
    if outer in ("*", inner):
        return True
    if outer.startswith("*."):
        return inner.endswith(outer[1:])
    if "/" not in outer or not is_address(inner.partition("/")[0]):
        return False
    from ipaddress import ip_network

    wide, narrow = ip_network(outer), ip_network(inner)
    return wide.version == narrow.version and narrow.subnet_of(wide)  # type: ignore[arg-type]


def names_special(pattern: str, host: str) -> bool:
    """Whether a rule is about this special host, rather than only wide enough to include it.

    It is if it names the host itself, or a domain or network that lies wholly in the special range.
    """
    name = parse_pattern(pattern).name
    if name == "*" or not contains_name(name, host):
        return False
    if "/" not in name:
        return True
    from ipaddress import ip_network

    network = ip_network(name)
    kinds = {special_kind(str(end)) for end in (network[0], network[-1])}
    return len(kinds) == 1 and kinds != {""}


def common_hosts(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """The patterns for the hosts that both sides allow."""
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
    """The patterns as text, without those that another one covers."""
    kept = (p for p in patterns if not any(q != p and _covers(q, p) for q in patterns))
    return tuple(sorted(map(str, kept)))
