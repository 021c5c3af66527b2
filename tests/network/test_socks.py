"""SOCKS clients: bytes in, replies and requests out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.network.refusal import Malformed, RefusalKind
from pinfold.network.socks import LONGEST, Event, SocksGreeting, SocksRejection, SocksReply, SocksRequest
from tests.network.byte_pieces import PLACES, cut, outcome

OPEN, NAMED = b"\5\1\0", b"\5\2\0\2"
BY_NAME = b"\5\1\0\3\x09a.example\1\xbb"
CREDENTIALS = b"\1\5tag-1\1x"

TALKS: list[tuple[bytes, list[Event], bytes]] = [
    # what the client sends, what comes of it, what is left over
    (OPEN + BY_NAME, [SocksReply(b"\5\0"), SocksRequest("a.example", 443)], b""),
    (
        NAMED + CREDENTIALS + BY_NAME,
        [SocksReply(b"\5\2"), SocksReply(b"\1\0"), SocksRequest("a.example", 443)],
        b"",
    ),
    (OPEN + BY_NAME + b"\x16\3", [SocksReply(b"\5\0"), SocksRequest("a.example", 443)], b"\x16\3"),
    (OPEN + b"\5\1\0\1\xcb\0\x71\x09\1\xbb", [SocksReply(b"\5\0"), SocksRequest("203.0.113.9", 443)], b""),
    (OPEN + b"\5\1\0\4" + bytes(15) + b"\1\0\x16", [SocksReply(b"\5\0"), SocksRequest("::1", 22)], b""),
    (OPEN + b"\5\1\0\3\x09127.0.0.1\0\x50", [SocksReply(b"\5\0"), SocksRequest("127.0.0.1", 80)], b""),
    # what is not offered here
    (
        b"\5\1\1",
        [SocksRejection(b"\5\xff", "the SOCKS client offers no supported authentication method")],
        b"",
    ),
    (
        OPEN + b"\5\3\0\1" + bytes(6),  # UDP ASSOCIATE
        [
            SocksReply(b"\5\0"),
            SocksRejection(b"\5\7\0\1" + bytes(6), "only the SOCKS command CONNECT is supported"),
        ],
        b"\5\3\0\1" + bytes(6),
    ),
    (
        OPEN + b"\5\1\0\2" + bytes(6),
        [
            SocksReply(b"\5\0"),
            SocksRejection(b"\5\x08\0\1" + bytes(6), "the SOCKS request has an unknown address type"),
        ],
        b"\5\1\0\2" + bytes(6),
    ),
    # SOCKS 4 and 4a
    (b"\4\1\0\x50\xcb\0\x71\x09me\0", [SocksRequest("203.0.113.9", 80)], b""),
    (b"\4\1\1\xbb\0\0\0\1me\0a.example\0rest", [SocksRequest("a.example", 443)], b"rest"),
    (
        b"\4\2\1\xbb\0\0\0\1\0a.example\0",
        [SocksRejection(b"\0\x5b" + bytes(6), "only the SOCKS command CONNECT is supported")],
        b"",
    ),
]


@pytest.mark.parametrize(("data", "events", "rest"), TALKS)
@given(places=PLACES)
def test_talks_in_any_pieces(data: bytes, events: list[Event], rest: bytes, places: list[int]) -> None:
    greeting = SocksGreeting()
    assert [event for piece in cut(data, places) for event in greeting.feed(piece)] == events
    assert greeting.rest == rest


@pytest.mark.parametrize(
    "data", [b"GET", b"\6\1\0", OPEN + b"\4\1\0\3\1", NAMED + b"\2", b"\4" + b"x" * LONGEST]
)
def test_broken(data: bytes) -> None:
    with pytest.raises(Malformed):
        SocksGreeting().feed(data)


def test_answers() -> None:
    greeting = SocksGreeting()
    greeting.feed(OPEN + BY_NAME)
    assert greeting.granted() == b"\5\0\0\1" + bytes(6)
    assert greeting.refused(RefusalKind.DENIED) == b"\5\2\0\1" + bytes(6)
    assert greeting.refused(RefusalKind.REFUSED_THERE) == b"\5\5\0\1" + bytes(6)
    old = SocksGreeting()
    old.feed(b"\4\1\0\x50\xcb\0\x71\x09me\0")
    assert old.granted() == b"\0\x5a" + bytes(6)
    assert old.refused(RefusalKind.DENIED) == b"\0\x5b" + bytes(6)


@given(
    st.binary(max_size=2 * LONGEST), st.sampled_from([b"", OPEN, NAMED, b"\4\1", NAMED + CREDENTIALS]), PLACES
)
def test_garbage_is_understood_or_malformed(data: bytes, start: bytes, places: list[int]) -> None:
    outcome(SocksGreeting().feed, cut(start + data, places))
