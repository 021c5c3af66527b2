"""Hosts: one spelling for each, what kind of address one is, and whether a rule names it.

Every host and every rule is brought into its canonical spelling before anything is compared, so two
spellings of a host cannot get two answers.

Facts about host spellings:
- `inet_aton` reads 1 to 4 numbers, each decimal, octal (0..) or hexadecimal (0x..), the last one
  filling the remaining bytes: `127.1`, `0x7f000001` and `2130706433` are all 127.0.0.1.
- IPv6 can carry an IPv4 address: `::ffff:a.b.c.d` (mapped), `::a.b.c.d` (compatible),
  `64:ff9b::a.b.c.d` (NAT64), `2002:aabb:ccdd::` (6to4, RFC 3056) and `2001:0:S:S::C:C` (Teredo, RFC 4380: the
  server S, and the client C with its bits turned over) reach that IPv4 host.
- A trailing dot is the same name; capital letters are; Unicode forms are by IDNA (UTS 46), where
  `。` is a dot and `ⓔ` an `e`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

LONGEST_NAME = 253
LONGEST_LABEL = 63
HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
# Names that /etc/hosts gives to this machine on one distribution or another.
LOOPBACK_NAMES = frozenset(("localhost4", "localhost6", "ip6-localhost", "ip6-loopback"))
LOOPBACK_DOMAINS = frozenset(("localhost", "localdomain", "localdomain4", "localdomain6"))


def canonical(host: str) -> str:
    """The one spelling of a host: a lower-case ASCII name, or an address as the kernel prints it."""
    if any(c <= " " or c in "%/\\@?#\x7f" for c in host):
        raise ValueError("the host has a character that no host has")
    if host.startswith("[") and host.endswith("]"):
        return str(_ipv6(host[1:-1]))
    if ":" in host:
        return str(_ipv6(host))
    name = _ascii(host).lower()
    name = name[:-1] if name.endswith(".") else name
    return _inet_aton(name) or _checked(name)


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError("the host is no international domain name") from error


def _checked(name: str) -> str:
    labels = name.split(".")
    fine = len(name) <= LONGEST_NAME and all(
        0 < len(label) <= LONGEST_LABEL and set(label) <= HOST_CHARACTERS and label[0] != "-" != label[-1]
        for label in labels
    )
    if not fine or _number(labels[-1]) is not None:
        raise ValueError("the host is neither a name nor an address")
    return name


def _number(text: str) -> int | None:
    digits, base = text, 10
    if text[:2] in ("0x", "0X"):
        digits, base = text[2:] or "0", 16
    elif text.startswith("0") and len(text) > 1:
        digits, base = text[1:], 8
    allowed = "0123456789abcdef"[:base]
    return int(digits, base) if digits and all(c in allowed for c in digits) else None


def _inet_aton(name: str) -> str | None:
    numbers = [_number(part) for part in name.split(".")]
    known = [number for number in numbers if number is not None]
    if len(known) != len(numbers) or len(known) > 4:
        return None
    *heads, last = known
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise ValueError("the host is no address")
    value = last + sum(head << (8 * (3 - position)) for position, head in enumerate(heads))
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _ipv6(text: str) -> IPv4Address | IPv6Address:
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(text)
    except ValueError as error:
        raise ValueError("the host is no address") from error
    return _embedded(address) or address


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries. Of Teredo's two, the one that is not public counts."""
    from ipaddress import IPv4Address

    number = int(address)
    high, low = number >> 32, number & 0xFFFFFFFF
    if address.teredo is not None:
        server, client = address.teredo
        return client if server.is_global else server
    if address.sixtofour is not None:
        return address.sixtofour
    is_carried = address.ipv4_mapped or (high == 0 and low > 1) or high == 0x64FF9B << 64
    return IPv4Address(low) if is_carried else None


def special_kind(host: str) -> str:
    """`loopback`, `link-local` ... for a canonical address that is not on the public network, else empty."""
    if host in LOOPBACK_NAMES or host.rpartition(".")[2] in LOOPBACK_DOMAINS:
        return "loopback"
    if not _is_address(host):
        return ""
    from ipaddress import ip_address

    address = ip_address(host)
    kinds = ("loopback", "link_local", "multicast", "unspecified", "reserved", "private")
    for kind in kinds:
        if getattr(address, f"is_{kind}"):
            return kind.replace("_", "-")
    return "" if address.is_global else "private"


def _is_address(host: str) -> bool:
    """Preconditions: `host` is canonical."""
    return ":" in host or _number(host.rpartition(".")[2]) is not None


class Pattern(NamedTuple):
    """What a rule names, in canonical spelling."""

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
    if _is_address(host):
        raise ValueError("`*.` stands before a name, not before an address")
    return Pattern(f"*.{host}", port)


def require_pattern(text: str) -> None:
    """Raises `ValueError`, with one clear line, where the text is no rule about hosts."""
    parse_pattern(text)


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in name or rest[:1] not in ("", ":"):
            raise ValueError("brackets go around an IPv6 address, with nothing but a port behind them")
        return name, _port(rest[1:]) if rest else None
    name, colon, digits = text.partition(":")
    if not colon or ":" in digits:  # more than one colon is an IPv6 address
        return text, None
    return name, _port(digits)


def _port(digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise ValueError("what follows the colon is no port from 1 to 65535")
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
        raise ValueError("hosts of this network are read as IPv4 addresses; write their IPv4 network")
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
    if "/" not in outer or not _is_address(inner.partition("/")[0]):
        return False
    from ipaddress import ip_network

    wide, narrow = ip_network(outer), ip_network(inner)
    return wide.version == narrow.version and narrow.subnet_of(wide)  # type: ignore[arg-type]


def names_special(pattern: str, host: str) -> bool:
    """Whether a rule means this special host, and does not merely happen to be wide enough for it.

    It does by the host itself, or by a domain or network that lies in the special range with both its ends.
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
