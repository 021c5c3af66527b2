"""What a client speaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.network.first_bytes import FirstBytes, Protocol
from tests.network.hellos import real_hello
from tests.network.pieces import PLACES, cut

HTTP, TLS, OTHER = Protocol.HTTP, Protocol.TLS, Protocol.OTHER
SPOKEN = [
    (real_hello("a.example"), TLS),
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP),
    # what only a lenient server takes for HTTP
    (b"\r\n\r\nGET / HTTP/1.1\r\n", HTTP),
    (b"get / http/1.0\n", HTTP),
    (b"WHATEVER\t/\tHTTP/1.1\n", HTTP),
    (b"GET / HTTP/1.1" + b" " * 200 + b"\r\n", HTTP),
    (b"GET /\x01\xc3\xa4 HTTP/1.1\r\n", HTTP),
    (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n", HTTP),
    (b"GET / HTTP/1." + b"0" * 200 + b"1\r\n", HTTP),
    (b"GET\x1c/\x1cHTTP/1.1\r\n", HTTP),
    (b"GET /\xa0HTTP/1.1\x85\r\n", HTTP),
    (b"GET http://a.example/\r\n", HTTP),
    (b"GET \t " + b"x" * 200 + b"://a.example\n", HTTP),
    # what only a lenient server takes for TLS
    (b"\x15\3\1\0\2\1\x5a" + real_hello("a.example"), TLS),
    (b"\x14\3\3\0\1\1" + real_hello("a.example"), TLS),
    # other protocols
    (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", OTHER),
    (b"EHLO a.example\r\n", OTHER),
    (b"*1\r\n$4\r\nPING\r\n", OTHER),
    (b"\x16\x02\x00\n", OTHER),
    (b"a line about HTTP/1.1 and more\n", OTHER),
    (b"GET /\r\n", OTHER),  # HTTP/0.9 names no host
    (b"OPTIONS rtsp://a.example/ RTSP/1.0\r\n", OTHER),
    (b"GETS key http://\r\n", OTHER),
]


@pytest.mark.parametrize(("data", "protocol"), SPOKEN)
@given(places=PLACES)
def test_protocols_in_any_pieces(data: bytes, protocol: Protocol, places: list[int]) -> None:
    first = FirstBytes()
    for piece in cut(data, places):
        first.feed(piece)
    assert first.protocol is protocol


@pytest.mark.parametrize("data", [b"", b"\x16", b"\r\n", b"hello", b"GET / HTT"])
def test_what_may_still_be_anything_is_held(data: bytes) -> None:
    first = FirstBytes()
    assert first.feed(data) is None
    assert first.is_doubtful


@pytest.mark.parametrize("data", [b"\0\0\0\x08\x04\xd2\x16\x2f", b"\x10\x25\0\4MQTT", b"a" * 70_000])
def test_what_is_no_line_of_text_is_not_held_and_still_watched(data: bytes) -> None:
    first = FirstBytes()
    assert first.feed(data) is None
    assert not first.is_doubtful
    assert first.feed(b" HTTP/1.1\r\n") is Protocol.HTTP


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_total(pieces: list[bytes]) -> None:
    first = FirstBytes()
    for piece in pieces:
        first.feed(piece)
