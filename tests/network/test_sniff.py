"""What a client speaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.network.sniff import FirstBytes, Protocol
from tests.network.byte_pieces import PLACES, cut
from tests.network.tls_hellos import real_hello

HTTP, TLS, OTHER, PROXY = Protocol.HTTP, Protocol.TLS, Protocol.OTHER, Protocol.PROXY
FOR_TLS, FOR_KERBEROS = b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"
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
    (b"GET /\r\n", HTTP),
    (b"GET *\n", HTTP),
    (b"M-SEARCH  /x y\n", HTTP),
    (b"GET_PARAMETER " + b"x" * 200 + b"://a.example\n", HTTP),
    (b"OPTIONS rtsp://a.example/ RTSP/1.0\r\n", HTTP),
    (b"GET / RTSP/1.0\r\n", HTTP),
    (b"SOURCE x ICE/1.0\r\n", HTTP),
    (b"get x foo-2/10.25 \r\n", HTTP),
    (b"\v\r\n\x1c\n GET / HTTP/1.1\r\n", HTTP),
    (b"get / HTTP/1.0\rHost: b\r\n\r\n", HTTP),
    (b"GET / HTTP/1.0\rHost: b\r\r", HTTP),
    (b"get x Http/1.1 \r\r", HTTP),
    (b"get x foo/1.0\rHost: b\r\r", HTTP),
    (b"junk\rget / HTTP/1.0\r\r", HTTP),
    (b"G\rET / HT\rTP/1\r.\r1\r\nHost: b\r\n\r\n", HTTP),
    (b"get / HTTP/1.0\0x\r\nHost: b\r\n\r\n", HTTP),
    (b"get x Http/1.1 \0", HTTP),
    (b"get / x\r\nHost: b\r\n\r\n", HTTP),
    (b"pOsT\t/\tHTTP/x\r\n", HTTP),
    (b"head http://a.example/ x\r\n", HTTP),
    (b"get /" + b"a" * 2000 + b" x\r\n", HTTP),
    # what only a lenient server takes for TLS
    (b"\x15\3\1\0\2\1\x5a" + real_hello("a.example"), TLS),
    (b"\x14\3\3\0\1\1" + real_hello("a.example"), TLS),
    (b"\x15\2\1\0\2\1\x5a" + real_hello("a.example"), TLS),
    (b"\x16\1\1" + real_hello("a.example")[3:], TLS),
    (b"\x16\x0f\xff\0\1\1", TLS),
    (b"\x16\2\0\0\0" * 3 + b"\x16\2\0\0\5\1", TLS),
    (b"\x16\2\0\0\0" * 20, TLS),
    (b"\x80\x2e\1\3\1" + bytes(40), TLS),
    (b"\xff\xff\1\0\2" + bytes(40), TLS),
    # what is said of somebody else, before TLS or HTTP
    (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n" + real_hello("a.example"), PROXY),
    (b"PROXY UNKNOWN HTTP/1.1\r\n", PROXY),
    (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0" + real_hello("a.example"), PROXY),
    # PostgreSQL's
    (FOR_TLS + real_hello("a.example"), TLS),
    (FOR_KERBEROS + FOR_TLS + real_hello("a.example"), TLS),
    # other protocols
    (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", OTHER),
    (b"EHLO a.example\r\n", OTHER),
    (b"*1\r\n$4\r\nPING\r\n", OTHER),
    (b"\x16\2\0\0\5\2\n", OTHER),
    (b"\x16\1\0\0\1\0\0\0\0\0\0\0\xd4\x07\0\0\n", OTHER),  # MongoDB's, 278 bytes
    (b"\x15\0\0\0\x50" + b"x" * 80 + b"\n", OTHER),
    (b"\x80\0\0\x28" + bytes(40) + b"\n", OTHER),  # RPC's
    (b"\xc3\xa4\xc3\xb6\n", OTHER),
    (b"a line about HTTP/1.1 and more\n", OTHER),
    (b"GETS key http://\r\n", OTHER),
    (b"login\rname\r\n", OTHER),
    (b"PROXY of a text\r\n", OTHER),
    (b"USER anonymous\r\n", OTHER),
    (b"get /key\r\n", OTHER),  # memcached's
    (b"set /key 0 60 5\r\n", OTHER),
    (b"GET hosts\nColumns: name\n", OTHER),
    (b"CONNECT {}\r\n", OTHER),
    (b"SSH-2.0-x y/1.0\r\n", OTHER),
    (b"\0\r\nQUITE\n", OTHER),
    (FOR_TLS[:-1] + b"\n", OTHER),
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


@pytest.mark.parametrize("data", [b"\0\0\0\x10\x04\xd2\x16\x2e", b"\x10\x25\0\4MQTT", b"a" * 70_000])
def test_what_is_no_line_of_text_is_not_held_and_still_watched(data: bytes) -> None:
    first = FirstBytes()
    assert first.feed(data) is None
    assert not first.is_doubtful
    assert first.feed(b" HTTP/1.1\r\n") is Protocol.HTTP


@pytest.mark.parametrize("request_", [FOR_TLS, FOR_KERBEROS])
@given(places=PLACES)
def test_a_request_for_tls_is_not_held_and_all_begins_anew(request_: bytes, places: list[int]) -> None:
    first = FirstBytes()
    for piece in cut(request_, places):
        assert first.feed(piece) is None
        assert not piece or not first.is_doubtful
    assert first.has_asked_for_tls
    assert first.feed(b"\x16") is None
    assert first.is_doubtful
    assert first.feed(b"\3\1") is Protocol.TLS


@pytest.mark.parametrize("behind", [b"\x16", b"GET / HTTP/1.1\r\n", b"\0", FOR_TLS])
def test_who_asks_for_tls_and_does_not_wait_is_not_heard(behind: bytes) -> None:
    assert FirstBytes().feed(FOR_TLS + behind) is Protocol.TLS


@pytest.mark.parametrize(
    ("data", "is_whole"),
    [
        (b"GET http://b.example/ HTTP/1.1", True),
        (b"get x HTTP/1.0", True),
        (b"GET /", True),
        (b"\1get / HTTP/1.0", True),
        (b"GET http:/", False),
        (b"get / HTTP/", True),
        (b"get / ", False),
        (b"EHLO a.example", False),
        (b"\x16", False),
        (b"", False),
    ],
)
def test_what_may_count_as_a_request_though_its_line_has_no_end(data: bytes, is_whole: bool) -> None:
    first = FirstBytes()
    assert first.feed(data) is None
    assert first.as_it_is is (HTTP if is_whole else None)


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_total(pieces: list[bytes]) -> None:
    first = FirstBytes()
    for piece in pieces:
        first.feed(piece)
