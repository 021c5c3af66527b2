"""Which proxy is used, and for whom."""

import pytest

from pinfold.network.upstream import Upstream, choose

PROXY = "http://me:p%40ss@proxy.test:3128"


@pytest.mark.parametrize(
    ("setting", "environ", "chosen"),
    [
        ("none", {"https_proxy": PROXY}, None),
        ("environment", {}, None),
        ("environment", {"https_proxy": ""}, None),
        ("environment", {"http_proxy": PROXY}, None),
        ("environment", {"https_proxy": PROXY}, Upstream("proxy.test", 3128, "me", "p@ss")),
        ("environment", {"ALL_PROXY": "proxy.test:8080"}, Upstream("proxy.test", 8080)),
        ("environment", {"https_proxy": "http://[::1]:8080/"}, Upstream("::1", 8080)),
        ("environment", {"https_proxy": "http://proxy.test"}, Upstream("proxy.test", 80)),
        ("environment", {"HTTPS_PROXY": "http://x:1", "https_proxy": "http://y:2"}, Upstream("y", 2)),
        ("http://proxy.test:3128", {"https_proxy": "http://other:1"}, Upstream("proxy.test", 3128)),
        (
            "http://proxy.test:3128",
            {"PINFOLD_PROXY_CREDENTIALS": "me:a:b"},
            Upstream("proxy.test", 3128, "me", "a:b"),
        ),
        (
            "environment",
            {"https_proxy": "http://p:1", "no_proxy": "a.test, .b.test 10.0.0.0/8"},
            Upstream("p", 1, direct=("a.test", ".b.test", "10.0.0.0/8")),
        ),
    ],
)
def test_choose(setting: str, environ: dict[str, str], chosen: Upstream | None) -> None:
    assert choose(setting, environ) == chosen


@pytest.mark.parametrize(
    "text",
    [
        "socks5://me:s3cr3t@p:1",
        "https://me:s3cr3t@p:1",
        "http://me:s3cr3t@p:x",
        "http://me:s3cr3t@",
        "s3cr3t://x",
    ],
)
def test_what_cannot_be_used_is_told_without_its_password(text: str) -> None:
    found = choose("environment", {"https_proxy": text})
    assert found and found.trouble and "me:" not in found.trouble and "s3cr3t@" not in found.trouble


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_direct"),
    [
        ("*", "a.test", 443, True),
        ("a.test", "a.test", 443, True),
        ("a.test", "b.a.test", 443, True),
        (".a.test", "b.a.test", 443, True),
        ("*.a.test", "b.a.test", 443, True),
        ("a.test", "ba.test", 443, False),
        ("a.test:443", "a.test", 443, True),
        ("a.test:443", "a.test", 80, False),
        ("8.8.8.8", "8.8.8.8", 443, True),
        ("8.8.0.0/16", "8.8.8.8", 443, True),
        ("8.8.0.0/16", "8.9.8.8", 443, False),
        ("2001:db8::/32", "2001:db8::1", 443, True),
        ("[2001:db8::1]", "2001:db8::1", 443, True),
        ("8.8", "8.8.8.8", 443, False),
        (".", "a.test", 443, False),
        ("", "a.test", 443, False),
    ],
)
def test_who_is_reached_without_it(entry: str, host: str, port: int, is_direct: bool) -> None:
    assert Upstream("p", 1, direct=(entry,)).is_used_for(host, port) is not is_direct
