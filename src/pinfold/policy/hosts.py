"""Hosts: one spelling for each, what kind of address one is, and whether a rule names it.

Every host and every rule is brought into its canonical spelling before anything is compared, so two
spellings of a host cannot get two answers.

Facts about host spellings:
- `inet_aton` reads 1 to 4 numbers, each decimal, octal (0..) or hexadecimal (0x..), the last one
  filling the remaining bytes: `127.1`, `0x7f000001` and `2130706433` are all 127.0.0.1.
- IPv6 can carry an IPv4 address: `::ffff:a.b.c.d` (mapped), `::a.b.c.d` (compatible) and
  `64:ff9b::a.b.c.d` (NAT64) reach that IPv4 host.
- A trailing dot is the same name; capital letters are; Unicode forms are by IDNA (UTS 46), where
  `。` is a dot and `ⓔ` an `e`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

LONGEST_NAME = 253
LONGEST_LABEL = 63
HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


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
    from ipaddress import IPv4Address, IPv6Address, IPv6Network

    try:
        address = IPv6Address(text)
    except ValueError as error:
        raise ValueError("the host is no address") from error
    low = int(address) & 0xFFFFFFFF
    nat64 = IPv6Network("64:ff9b::/96")
    compatible = int(address) >> 32 == 0 and low > 1
    return IPv4Address(low) if address.ipv4_mapped or compatible or address in nat64 else address


def special_kind(host: str) -> str:
    """`loopback`, `link-local` ... for a canonical address that is not on the public network, else empty."""
    if host == "localhost" or host.endswith(".localhost"):
        return "loopback"
    if ":" not in host and _number(host.rpartition(".")[2]) is None:
        return ""
    from ipaddress import ip_address

    address = ip_address(host)
    kinds = ("loopback", "link_local", "multicast", "unspecified", "reserved", "private")
    for kind in kinds:
        if getattr(address, f"is_{kind}"):
            return kind.replace("_", "-")
    return "" if address.is_global else "private"


def matches(pattern: str, host: str, port: int) -> bool:
    """Whether a rule (`x.y`, `*.x.y`, `x.y:443`, an address, a network, `[v6]:port`, `*`) names this host."""
    name, wanted_port = split_port(pattern)
    if wanted_port is not None and wanted_port != port:
        return False
    if name == "*":
        return True
    if "/" in name:
        return _in_network(name, host)
    if name.startswith("*."):
        return host.endswith("." + canonical(name[2:]))
    return canonical(name) == host


def split_port(pattern: str) -> tuple[str, int | None]:
    head, colon, tail = pattern.rpartition(":")
    bare_ipv6 = ":" in head and not (head.startswith("[") and head.endswith("]"))
    if not colon or bare_ipv6 or not tail.isdecimal():
        return pattern, None
    return head, int(tail)


def _in_network(pattern: str, host: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address in ip_network(pattern.strip("[]"), strict=False)
