"""Hosts: one spelling each, and the order of the answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.model.decision import Verdict
from pinfold.model.hosts import canonical, special_kind
from pinfold.model.request import Connect
from pinfold.model.settings import NetworkAccess, NetworkSettings, Settings
from pinfold.policy.decide import decide
from pinfold.policy.hosts import common_hosts, covers, matches, names_special, require_pattern
from tests.policy.policies import HOSTS, hosts

SPELLINGS = [
    # names
    ("Example.COM", "example.com"),
    ("example.com.", "example.com"),
    ("EXAMPLE。com", "example.com"),
    ("ⓔxample.com", "example.com"),
    ("bücher.example", "xn--bcher-kva.example"),
    ("a_b.example", "a_b.example"),
    # every way to write 127.0.0.1
    ("127.0.0.1", "127.0.0.1"),
    ("127.1", "127.0.0.1"),
    ("127.0.1", "127.0.0.1"),
    ("2130706433", "127.0.0.1"),
    ("0x7f000001", "127.0.0.1"),
    ("0x7f.1", "127.0.0.1"),
    ("0177.0.0.01", "127.0.0.1"),
    ("[::ffff:127.0.0.1]", "127.0.0.1"),
    ("::ffff:7f00:1", "127.0.0.1"),
    ("64:ff9b::7f00:1", "127.0.0.1"),
    ("::127.0.0.1", "127.0.0.1"),
    ("2002:7f00:1::1", "127.0.0.1"),
    ("2001:0:808:808:0:0:80ff:fffe", "127.0.0.1"),  # Teredo's client, its bits turned over
    ("2001:0:7f00:1:0:0:f7f7:f7f7", "127.0.0.1"),  # Teredo's server
    # IPv6
    ("[::1]", "::1"),
    ("0:0:0:0:0:0:0:1", "::1"),
    ("[2001:DB8::1]", "2001:db8::1"),
]
MALFORMED = [
    "", ".", "a..b", "-a.example", "a-.example", "a b", "a\0b", "a\r\nb", "a%20b", "evil.example#.ok.example",
    "user@host", "a/b", "256.0.0.1", "1.2.3.4.5", "0x", "[::1",
    "1.2.3.999", "example.123", "a" * 64 + ".example",
    "\N{RIGHT-TO-LEFT OVERRIDE}moc.example",
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), SPELLINGS)
def test_canonical(written: str, expected: str) -> None:
    assert canonical(written) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize("written", MALFORMED)
def test_malformed(written: str) -> None:
    if written == "0x":  # inet_aton reads a bare 0x as zero
        assert canonical(written) == "0.0.0.0"
        return
    with pytest.raises(ValueError, match=r".") as raised:
        canonical(written)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("piece", ["1.", "\xe4", "f", "0", "a:", "[", "\u00ad"])
def test_what_is_longer_than_any_name_is_not_read(piece: str) -> None:
    """A command chooses the host: reading 64 kB of it would keep the gate's other connections waiting."""
    with pytest.raises(ValueError, match="longer than 253 characters"):
        canonical(piece * (65536 // len(piece)))
    name = ".".join(["a" * 49] * 5 + ["b" * 3])
    assert len(name) == 253 and canonical(f"{name}.") == canonical(name) == name


PATTERNS = [
    ("example.com", "example.com", 443, True),
    ("Example.com", "example.com", 443, True),
    ("example.com", "api.example.com", 443, False),
    ("*.example.com", "api.example.com", 443, True),
    ("*.example.com", "a.b.example.com", 443, True),
    ("*.example.com", "example.com", 443, False),
    ("*.example.com", "evilexample.com", 443, False),
    ("example.com:443", "example.com", 443, True),
    ("example.com:443", "example.com", 80, False),
    ("*", "anything.example", 1, True),
    ("10.0.0.0/8", "10.1.2.3", 80, True),
    ("10.0.0.0/8", "11.1.2.3", 80, False),
    ("10.0.0.0/8", "ten.example", 80, False),
    ("[2001:db8::1]:443", "2001:db8::1", 443, True),
    ("[2001:db8::1]:443", "2001:db8::1", 80, False),
    ("2001:db8::1", "2001:db8::1", 80, True),
    ("0x7f.1", "127.0.0.1", 80, True),
    ("[::1]", "::1", 80, True),
    ("2001:db8::/32", "2001:db8::1", 80, True),
    ("[2001:db8::/32]:443", "2001:db8::1", 80, False),
    # networks of addresses that are read as IPv4
    ("::ffff:10.0.0.0/104", "10.1.2.3", 80, True),
    ("2002:a00::/24", "10.1.2.3", 80, True),
    ("64:ff9b::a00:0/104", "11.1.2.3", 80, False),
]


@pytest.mark.parametrize(("pattern", "host", "port", "expected"), PATTERNS)
def test_matches(pattern: str, host: str, port: int, expected: bool) -> None:
    assert matches(pattern, host, port) is expected


NOT_PATTERNS = [
    "", "*.", "*.*.x", "x*", "a b", "https://x.example", "x.example/path", "x.example:", "x.example:0",
    "x.example:65536", "x.example:\uff14\uff14\uff13", "[x.example]:80", "[::1", "[::1]80", "*.10.0.0.1",
    "10.0.0.0/33", "1.2.3.4.5", "::/96", "2001::/40",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_PATTERNS)
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        require_pattern(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", [*HOSTS, *(pattern for pattern, *_ in PATTERNS)])
def test_what_is_a_pattern(text: str) -> None:
    require_pattern(text)


NAMES = "x.org a.x.org b.a.x.org y.org 10.0.0.1 10.1.0.1 11.0.0.1 ::1 2001:db8::1"
PROBES = [(host, port) for host in NAMES.split() for port in (80, 443)]


@given(hosts, hosts, st.sampled_from(PROBES))
def test_shared_is_what_both_let_through(
    one: tuple[str, ...], other: tuple[str, ...], probe: tuple[str, int]
) -> None:
    let = [any(matches(pattern, *probe) for pattern in side) for side in (one, other)]
    assert any(matches(pattern, *probe) for pattern in common_hosts(one, other)) is all(let)


@given(st.sampled_from(HOSTS), st.sampled_from(HOSTS))
def test_covers_is_no_wider_than_matches(outer: str, inner: str) -> None:
    if covers(outer, inner):
        assert all(matches(outer, *probe) for probe in PROBES if matches(inner, *probe))


SHARED = [
    ("10.0.0.0/8", "10.1.0.0/16", ("10.1.0.0/16",)),
    ("10.0.0.0/8", "0x0a.1:443", ("10.0.0.1:443",)),
    ("[::1]", "::1", ("::1",)),
    ("[::1]:443", "0:0:0:0:0:0:0:1", ("[::1]:443",)),
    ("*:443", "*.X.org", ("*.x.org:443",)),
    ("x.org:80", "x.org:443", ()),
    ("no host", "*", ()),
]


@pytest.mark.parametrize(("one", "other", "expected"), SHARED)
def test_common_hosts(one: str, other: str, expected: tuple[str, ...]) -> None:
    assert common_hosts([one], [other]) == common_hosts([other], [one]) == expected


NAMED = [
    ("127.0.0.1", "127.0.0.1", True),
    ("localhost:80", "localhost", True),
    ("*.localhost", "x.localhost", True),
    ("127.0.0.0/8", "127.0.0.1", True),
    ("192.168.0.0/16", "192.168.1.1", True),
    ("fc00::/7", "fd00::1", True),
    # wide enough, and yet not about it
    ("*", "127.0.0.1", False),
    ("*:80", "localhost", False),
    ("0.0.0.0/0", "169.254.169.254", False),
    ("128.0.0.0/1", "169.254.169.254", False),
    ("10.0.0.0/7", "10.0.0.1", False),
    ("192.0.0.0/8", "192.168.1.1", False),
    ("::/0", "::1", False),
    # not about it at all
    ("10.0.0.0/8", "127.0.0.1", False),
]


@pytest.mark.parametrize(("pattern", "host", "expected"), NAMED)
def test_names_special(pattern: str, host: str, expected: bool) -> None:
    assert names_special(pattern, host) is expected


@given(st.text(alphabet="abc.:[]01x%*-Ñ。\u200b", max_size=12))
def test_canonical_is_total_and_stable(text: str) -> None:
    try:
        once = canonical(text)
    except ValueError:
        return
    assert canonical(once) == once


SPECIAL = [
    ("127.0.0.1", "loopback"),
    ("localhost", "loopback"),
    ("x.localhost", "loopback"),
    ("localhost.localdomain", "loopback"),
    ("box.localdomain", "loopback"),
    ("localhost6.localdomain6", "loopback"),
    ("ip6-localhost", "loopback"),
    ("ip6-loopback", "loopback"),
    ("localhost.example", ""),
    ("169.254.169.254", "link-local"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "private"),
    ("0.0.0.0", "unspecified"),
    ("::1", "loopback"),
    ("fe80::1", "link-local"),
    ("fd00::1", "private"),
    ("fd00:ec2::254", "private"),
    ("100.100.100.200", "private"),
    ("168.63.129.16", "metadata"),
    ("192.0.0.192", "metadata"),
    ("fec0::1", "site-local"),
    ("64:ff9b:1::7f00:1", "reserved"),
    ("8.8.8.8", ""),
    ("example.com", ""),
]


@pytest.mark.parametrize(("host", "kind"), SPECIAL)
def test_special_kind(host: str, kind: str) -> None:
    assert special_kind(host) == kind


ANSWERS = [
    # access, allow, deny, host, verdict, step
    ("ask", [], [], "example.com", Verdict.ASK, "network_access"),
    ("rules", [], [], "example.com", Verdict.DENY, "network_access"),
    ("all", [], [], "example.com", Verdict.ALLOW, "network_access"),
    ("none", ["example.com"], [], "example.com", Verdict.DENY, "network_none"),
    ("rules", ["example.com"], [], "example.com", Verdict.ALLOW, "network_allow"),
    ("rules", ["example.com"], ["*"], "example.com", Verdict.DENY, "network_deny"),
    ("all", [], ["*.example.com"], "API.example.com.", Verdict.DENY, "network_deny"),
    ("all", [], [], "169.254.169.254", Verdict.DENY, "special_address"),
    ("all", [], [], "2852039166", Verdict.DENY, "special_address"),
    ("all", [], [], "[2002:a9fe:a9fe::1]", Verdict.DENY, "special_address"),
    ("rules", ["127.0.0.1"], [], "127.1", Verdict.ALLOW, "network_allow"),
    ("all", [], [], "a b", Verdict.DENY, "malformed_host"),
]


@pytest.mark.parametrize(("access", "allow", "deny", "host", "verdict", "step"), ANSWERS)
def test_connect(
    access: str, allow: list[str], deny: list[str], host: str, verdict: Verdict, step: str
) -> None:
    from tests.policy.world import facts

    network = NetworkSettings(access=NetworkAccess(access), allow=tuple(allow), deny=tuple(deny))
    decision = decide(Connect(host, 443), Settings(network=network), facts())
    assert (decision.verdict, decision.reasons[0].step) == (verdict, step)


@pytest.mark.parametrize(
    "text", ["*", "*:443", "*.com", "*.io", "*.co.uk", "*.com.au:443", "0.0.0.0/0", "::/0"]
)
def test_some_patterns_only_deny(text: str) -> None:
    require_pattern(text, "network.deny")
    with pytest.raises(ValueError, match=r"`network.access|anyone"):
        require_pattern(text, "network.allow")


@pytest.mark.parametrize(
    "text", ["*.test", "*.example.com", "*.bbc.co.uk", "*.corp", "*.x.io", "10.0.0.0/8", "com"]
)
def test_others_allow(text: str) -> None:
    require_pattern(text, "network.allow")
