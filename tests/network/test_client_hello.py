"""Which server a TLS hello names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.network.client_hello import (
    ALPN,
    EARLY_DATA,
    ENCRYPTED_HELLO,
    LONGEST,
    SERVER_NAME,
    ClientHello,
    HelloReader,
)
from pinfold.network.refusal import Malformed
from tests.network.byte_pieces import PLACES, cut, outcome
from tests.network.tls_hellos import (
    block,
    in_records,
    made_hello,
    made_message,
    real_hello,
    server_name,
)

NAMED = (SERVER_NAME, server_name(b"a.example"))
DRAFTS = (0xFFCE, 0xFF02, 0xFE08, 0xFE09, 0xFE0A, 0xFE0B, 0xFE0C)
"""Of ESNI and of encrypted hellos."""
HELLOS = [
    (real_hello("a.example"), "a.example", (), False),
    (real_hello("a.example", ("h2", "http/1.1")), "a.example", ("h2", "http/1.1"), False),
    (real_hello(None), None, (), False),
    (made_hello(NAMED), "a.example", (), False),
    (made_hello(), None, (), False),
    # GREASE (RFC 8701) before and behind
    (made_hello((0x0A0A, b""), NAMED, (0xFAFA, b"\0")), "a.example", (), False),
    # an encrypted hello, its outer name a pretext
    (made_hello(NAMED, (ENCRYPTED_HELLO, bytes(200))), "a.example", (), True),
    *((made_hello(NAMED, (kind, bytes(200))), "a.example", (), True) for kind in DRAFTS),
    # one byte in each record
    (in_records(made_message(NAMED), 1), "a.example", (), False),
    (in_records(made_message(NAMED, (ALPN, block(2, block(1, b"h2")))), 7), "a.example", ("h2",), False),
]
BROKEN = [
    b"GET / HTTP/1.1\r\n",
    b"\x16\2\0\0\1\1",
    b"\x16\3\1\0\0",  # an empty record
    b"\x16\3\1\xff\xff",  # a record that is too long
    b"\x16\3\1\0\1\2",  # a server's hello
    b"\x15\3\1\0\2\2\x28",  # an alert
    made_hello(NAMED, NAMED),
    made_hello((SERVER_NAME, server_name(b"a.example", b"b.example"))),
    made_hello((SERVER_NAME, server_name(b"a.example", kind=1))),
    made_hello((SERVER_NAME, server_name(b""))),
    made_hello((SERVER_NAME, server_name("ä.example".encode()))),
    made_hello((SERVER_NAME, server_name(b"a.example") + b"\0")),
    made_hello((SERVER_NAME, b"\0\xff\0")),
    in_records(b"\1" + block(3, made_message(NAMED)[4:] + b"x")),
    in_records(b"\1\xff\xff\xff" + bytes(100)),
]


@pytest.mark.parametrize(("data", "name", "alpn", "is_encrypted"), HELLOS)
@given(places=PLACES)
def test_hellos_in_any_pieces(
    data: bytes, name: str | None, alpn: tuple[str, ...], is_encrypted: bool, places: list[int]
) -> None:
    reader = HelloReader()
    *before, last = [reader.feed(piece) for piece in cut(data, places)]
    assert before == [None] * len(before)
    assert last == ClientHello(name, alpn, is_encrypted)


EARLY = made_hello(NAMED, (EARLY_DATA, b""))
CHANGE, DATA = b"\x14\3\3\0\1\1", b"\x17\3\3" + block(2, bytes(300))
KEY = b"\x16\3\3" + block(2, b"\x10" + bytes(70))
SECOND = made_hello((SERVER_NAME, server_name(b"b.example")))
BEHIND = [
    # the first hello and what follows it, and whether there is a second one in that
    (made_hello(NAMED) + SECOND, True),
    (made_hello(NAMED) + CHANGE + SECOND, True),
    (
        made_hello(NAMED)
        + b"\x15\3\3\0\2\1\x5a"
        + in_records(made_message((0, server_name(b"b.example"))), 1),
        True,
    ),
    (in_records(made_message(NAMED) + made_message((0, server_name(b"b.example")))), True),
    (EARLY + DATA + DATA + CHANGE + SECOND, True),
    (EARLY + DATA + DATA, False),
    # what comes behind these is encrypted
    (made_hello(NAMED) + CHANGE + DATA + SECOND, False),
    (made_hello(NAMED) + KEY + SECOND, False),
    (made_hello(NAMED) + CHANGE + b"\x16\3\3" + block(2, b"\1" + b"\xff" * 39) + SECOND, False),
]


@pytest.mark.parametrize(("data", "is_there"), BEHIND)
@given(places=PLACES)
def test_a_second_hello_in_any_pieces(data: bytes, is_there: bool, places: list[int]) -> None:
    reader, second, found = HelloReader(), None, []
    for piece in cut(data, places):
        if second is None:
            hello = reader.feed(piece)
            second = reader.second(hello) if hello else None
            piece = b""
        if second and not second.is_over:
            found.append(second.feed(piece))
    assert [hello.server_name for hello in found if hello] == ["b.example"] * is_there
    assert second and second.is_over == (data != EARLY + DATA + DATA)


@pytest.mark.parametrize("data", BROKEN)
def test_broken(data: bytes) -> None:
    with pytest.raises(Malformed):
        HelloReader().feed(data)


def test_a_hello_without_an_end_is_bounded() -> None:
    reader, record = HelloReader(), b"\x16\3\1" + block(2, b"\1\0\xff\xff" + bytes(1000))
    more = b"\x16\3\1" + block(2, bytes(1000))
    reader.feed(record)
    with pytest.raises(Malformed):
        for _ in range(LONGEST // len(more) + 1):
            reader.feed(more)


@given(st.binary(max_size=300), PLACES)
def test_garbage_is_a_hello_or_malformed(data: bytes, places: list[int]) -> None:
    outcome(HelloReader().feed, cut(data, places))
    outcome(HelloReader().feed, cut(in_records(data or b"x"), places))


@given(st.integers(0, 400), st.integers(0, 255), PLACES)
def test_a_damaged_hello_is_a_hello_or_malformed(at: int, value: int, places: list[int]) -> None:
    data = bytearray(real_hello("a.example", ("h2",)))
    data[at % len(data)] = value
    outcome(HelloReader().feed, cut(bytes(data), places))
