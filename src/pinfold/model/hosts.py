"""Hosts: one spelling for each, and what kind of address one is.

Policy compares hosts, the gate dials them. Both bring every host into its canonical spelling here before
anything else, so two spellings of a host cannot get two answers.

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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

LONGEST_NAME = 253
LONGEST_LABEL = 63
HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
# Names that /etc/hosts gives to this machine on one distribution or another.
LOOPBACK_NAMES = frozenset(("localhost4", "localhost6", "ip6-localhost", "ip6-loopback"))
LOOPBACK_DOMAINS = frozenset(("localhost", "localdomain", "localdomain4", "localdomain6"))
# Where clouds give credentials to any client, under addresses that look public (Azure, Oracle); those of the
# other clouds lie in ranges that are special anyway.
METADATA = frozenset(("168.63.129.16", "192.0.0.192"))


@lru_cache(1024)
def canonical(host: str) -> str:
    """The one spelling of a host: a lower-case ASCII name, or an address as the kernel prints it."""
    # Each connection calls this several times. A command chooses the host: what is longer than any name would
    # keep the gate's other connections waiting, and make the cache large.
    if len(host) > LONGEST_NAME + len("."):
        raise ValueError(f"the host is longer than {LONGEST_NAME} characters")
    if any(c <= " " or c in "%/\\@?#\x7f" for c in host):
        raise ValueError("the host contains a character that host names may not have")
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
        raise ValueError("the host is not a valid international domain name") from error


def _checked(name: str) -> str:
    labels = name.split(".")
    fine = len(name) <= LONGEST_NAME and all(
        0 < len(label) <= LONGEST_LABEL and set(label) <= HOST_CHARACTERS and label[0] != "-" != label[-1]
        for label in labels
    )
    if not fine or _number(labels[-1]) is not None:
        raise ValueError("the host is neither a valid name nor an address")
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
        raise ValueError("the host is not a valid address")
    value = last + sum(head << (8 * (3 - position)) for position, head in enumerate(heads))
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _ipv6(text: str) -> IPv4Address | IPv6Address:
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(text)
    except ValueError as error:
        raise ValueError("the host is not a valid address") from error
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
    if not is_address(host):
        return ""
    if host in METADATA:
        return "metadata"
    from ipaddress import ip_address

    address = ip_address(host)
    kinds = ("loopback", "link_local", "multicast", "unspecified", "reserved", "site_local", "private")
    for kind in kinds:
        if getattr(address, f"is_{kind}", False):
            return kind.replace("_", "-")
    return "" if address.is_global else "private"


def is_same(one: str, other: str) -> bool:
    """Whether two canonical hosts are the same: equal, or both this machine's loopback."""
    return one == other or (_means_loopback(one) and _means_loopback(other))


def _means_loopback(host: str) -> bool:
    """Connecting to the unspecified address reaches loopback too."""
    return special_kind(host) in ("loopback", "unspecified")


def is_address(host: str) -> bool:
    """Preconditions: `host` is canonical."""
    return ":" in host or _number(host.rpartition(".")[2]) is not None
