"""Hosts: one spelling each, and the order of the answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.model.decision import Verdict
from pinfold.model.request import Connect
from pinfold.model.settings import NetworkAccess, NetworkSettings, Settings
from pinfold.policy.decide import decide
from pinfold.policy.hosts import canonical, matches, special_kind

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
]


@pytest.mark.parametrize(("pattern", "host", "port", "expected"), PATTERNS)
def test_matches(pattern: str, host: str, port: int, expected: bool) -> None:
    assert matches(pattern, host, port) is expected


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
    ("169.254.169.254", "link-local"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "private"),
    ("0.0.0.0", "unspecified"),
    ("::1", "loopback"),
    ("fe80::1", "link-local"),
    ("fd00::1", "private"),
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
