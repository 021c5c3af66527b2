"""DNS messages."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.network import dns
from pinfold.network.refusal import Malformed


def query(
    name: bytes, kind: int = dns.A, klass: int = dns.IN, flags: int = 0x0100, more: bytes = b""
) -> bytes:
    head = struct.pack("!HHHHHH", 7, flags, 1, 0, 0, 1 if more else 0)
    return head + name + struct.pack("!HH", kind, klass) + more


EXAMPLE = b"\1a\7example\0"
EDNS = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)


def test_a_question() -> None:
    found = dns.parse_query(query(EXAMPLE, dns.AAAA, more=EDNS))
    assert (found.number, found.name, found.kind, found.klass) == (7, "a.example", dns.AAAA, dns.IN)
    assert found.is_standard


BROKEN = [
    b"",
    bytes(11),
    query(EXAMPLE)[:-1],
    query(b"\xc0\x0c"),  # a pointer to itself
    query(b"\1a\xc0\x0c"),
    query(b"\x401234"),  # a kind of label that was never used
    query(b"\x05abc"),
    query(b"\3a.b\0"),  # a dot within a label
    query(b"".join(b"\x3f" + b"a" * 63 for _ in range(4)) + b"\0"),  # 256 bytes
    struct.pack("!HHHHHH", 7, 0, 2, 0, 0, 0) + EXAMPLE + b"\0\1\0\1" + EXAMPLE + b"\0\1\0\1",
    struct.pack("!HHHHHH", 7, 0, 0, 0, 0, 0),
    query(EXAMPLE, flags=0x8100),  # an answer
    query(EXAMPLE) + bytes(dns.LONGEST),
]


@pytest.mark.parametrize("data", BROKEN)
def test_broken(data: bytes) -> None:
    with pytest.raises(Malformed):
        dns.parse_query(data)


def test_an_answer_repeats_the_question() -> None:
    asked = dns.parse_query(query(b"\1A\7eXample\0"))
    said = dns.answer(asked, dns.DnsCode.FINE, [bytes((198, 18, 1, 0))], 60)
    assert struct.unpack("!HHHHHH", said[:12]) == (7, 0x8580, 1, 1, 0, 0)
    assert said[12:] == b"\1A\7eXample\0\0\1\0\1" + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\1\0"


def test_answers_are_never_answered() -> None:
    assert dns.broken(query(EXAMPLE, flags=0x8000)) is None
    assert dns.broken(b"\0") is None
    assert dns.broken(query(b"\xc0\x0c")) == struct.pack("!HHHHHH", 7, 0x8001, 0, 0, 0, 0)


@given(st.binary(max_size=600))
def test_garbage_is_a_query_or_malformed(data: bytes) -> None:
    for message in (data, struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 0) + data):
        try:
            found = dns.parse_query(message)
        except Malformed:
            dns.broken(message)
        else:
            assert len(found.name) <= 254
            dns.answer(found, dns.DnsCode.NO_SUCH_NAME)
