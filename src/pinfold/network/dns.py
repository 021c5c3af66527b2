"""The little of DNS that a resolver which never asks others needs (RFC 1035). Sans-io.

Facts:
- A message: id, flags, four counts, then the question: a name as labels with a length before each, a type
  and a class. Names may end in a pointer to an earlier name; before the one question there is none.
- A label may hold any byte. A name that holds a dot, or a byte that no host has, names no host.
- Extra records (EDNS) say what the client could take. Answers of a few bytes fit in any case.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from pinfold.network.refusal import Malformed

LONGEST = 4096
A, PTR, AAAA, IN = 1, 12, 28, 1
_HEAD = struct.Struct("!HHHHHH")
_TAIL = struct.Struct("!HH")
_IS_ANSWER, _RECURSION_WANTED, _RECURSION_THERE, _AUTHORITATIVE = 0x8000, 0x0100, 0x0080, 0x0400
_OPCODES = 0x7800
_POINTER = b"\xc0\x0c"
"""A pointer to the question's name."""


class DnsCode(IntEnum):
    FINE = 0
    MALFORMED = 1
    FAILED = 2
    NO_SUCH_NAME = 3
    NOT_KNOWN = 4
    REFUSED = 5


class DnsQuery(NamedTuple):
    number: int
    name: str
    """The name as written, without the last dot; bytes beyond ASCII as latin-1."""
    kind: int
    klass: int
    question: bytes
    """The question's bytes, to be sent back."""
    flags: int

    @property
    def is_standard(self) -> bool:
        return not self.flags & _OPCODES


def parse_query(data: bytes) -> DnsQuery:
    """Parses the one question. Raises `Malformed` if there is none."""
    if not _HEAD.size <= len(data) <= LONGEST:
        raise Malformed("a DNS query cannot have this length")
    number, flags, questions, answers, _, _ = _HEAD.unpack_from(data)
    if flags & _IS_ANSWER:
        raise Malformed("a DNS answer, not a query")
    if questions != 1 or answers:
        raise Malformed("a DNS query needs exactly one question and no answer")
    labels, at = [], _HEAD.size
    while True:
        length = data[at] if at < len(data) else 64
        if length > 63:
            raise Malformed("the name in the DNS question is malformed")
        at += 1
        if not length:
            break
        labels.append(data[at : at + length])
        at += length
    if at + _TAIL.size > len(data) or at - _HEAD.size > 255:
        raise Malformed("the DNS question is malformed")
    if any(b"." in label for label in labels):
        raise Malformed("a DNS label contains a dot")
    kind, klass = _TAIL.unpack_from(data, at)
    name = b".".join(labels).decode("latin-1")
    return DnsQuery(number, name, kind, klass, data[_HEAD.size : at + _TAIL.size], flags)


def answer(query: DnsQuery, code: DnsCode, records: Sequence[bytes] = (), ttl: int = 0) -> bytes:
    """A reply that gives these values for the very kind that was asked for."""
    flags = (
        _IS_ANSWER | _AUTHORITATIVE | _RECURSION_THERE | query.flags & (_RECURSION_WANTED | _OPCODES) | code
    )
    head = _HEAD.pack(query.number, flags, 1, len(records), 0, 0)
    values = (_POINTER + struct.pack("!HHIH", query.kind, IN, ttl, len(value)) + value for value in records)
    return head + query.question + b"".join(values)


def broken(data: bytes) -> bytes | None:
    """The reply to bytes that are not a query; None if they must not be answered."""
    if len(data) < _HEAD.size or data[2] & 0x80:
        return None
    return _HEAD.pack(int.from_bytes(data[:2], "big"), _IS_ANSWER | DnsCode.MALFORMED, 0, 0, 0, 0)


def encode_name(name: str) -> bytes:
    """Preconditions: `name` is a canonical host."""
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"
