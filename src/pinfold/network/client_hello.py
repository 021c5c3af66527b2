"""The first message of TLS, which names the server that a client wants. Sans-io.

Facts (RFC 8446 4.1.2 and 5.1, RFC 6066 3, RFC 9849):
- A record is type, version, 16 bits of length, and at most 2^14 bytes (a few more once encrypted). Handshake
  messages may be cut anywhere into records, down to one byte each; empty handshake records are forbidden.
- The hello: version, 32 bytes of random, session id, cipher suites, compressions, extensions; each with its
  length before it. Extensions come at most once each; unknown ones (GREASE among them) are skipped.
- server_name (0) is a list of (type, name); type 0 is a host name, in ASCII, without a trailing dot.
- encrypted_client_hello (0xfe0d) means that the name which counts may be another one, inside. Browsers send
  a dummy of it that cannot be told from a real one. Its drafts had other numbers: 0xffce (ESNI), 0xff02, and
  from 0xfe08 on.
- A server of TLS 1.3 may ask for a second hello (HelloRetryRequest), and OpenSSL takes the name from that.
  It is in the clear too, behind the first, or behind records of early data, which the server skips.
"""

from typing import NamedTuple

from pinfold.network.refusal import Malformed

LONGEST = 65536
"""Bytes of records. Hellos with post-quantum keys have 2 kB; OpenSSL accepts 16 kB."""
HANDSHAKE, CLIENT_HELLO = 22, 1
APPLICATION_DATA = 23
SERVER_NAME, ALPN, EARLY_DATA, ENCRYPTED_HELLO = 0, 16, 42, 0xFE0D
_HIDING = frozenset((0xFFCE, 0xFF02, *range(0xFE08, ENCRYPTED_HELLO + 1)))
"""Extensions that hide the name that counts."""
_RECORDS = frozenset((0x14, 0x15, 0x16, 0x17, 0x18))
"""Kinds of records."""
_MAJOR = 3
_LAST_MAJOR = 15
"""The last major version that some server takes."""
_SSL2, _SSL2_HELLO = 0x80, 1
_MOST_RECORDS, _LONGEST_BEFORE = 16, 64
"""How many records a server skips before the hello, and how many bytes each of them has."""
_LONGEST_RECORD = 1 << 14
_LONGEST_TAKEN = 1 << 18
"""Bytes of a hello that no server accepts: OpenSSL accepts 131,396."""


class ClientHello(NamedTuple):
    server_name: str | None
    alpn: tuple[str, ...]
    is_encrypted: bool
    """Whether it holds an encrypted hello, so that `server_name` may not be the real one."""
    has_early_data: bool = False


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        if len(piece) != count:
            raise Malformed("the TLS hello is incomplete")
        self.at += count
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> "_Cursor":
        """What follows a length of this many bytes."""
        return _Cursor(self.take(self.number(size)))

    @property
    def left(self) -> int:
        return len(self.data) - self.at


class HelloReader:
    """Takes bytes as they come, until the hello is complete."""

    def __init__(self) -> None:
        self._records = bytearray()
        self._message = bytearray()
        self._taken = 0

    def feed(self, data: bytes) -> ClientHello | None:
        """The hello once it is complete; None while more must come. Raises `Malformed`."""
        self._taken += len(data)
        if self._taken > LONGEST:
            raise Malformed(f"the TLS hello is longer than {LONGEST} bytes")
        self._records += data
        body = self._body()
        while body is None and (record := self._next_record()) is not None:
            self._message += record
            body = self._body()
        return None if body is None else parse_hello(body)

    def _body(self) -> bytes | None:
        """The body of the first message, once it is complete."""
        if self._message and self._message[0] != CLIENT_HELLO:
            raise Malformed("the first TLS message is not a client hello")
        if len(self._message) < 4:
            return None
        length = int.from_bytes(self._message[1:4], "big")
        if length > LONGEST:
            raise Malformed(f"the TLS hello is longer than {LONGEST} bytes")
        if len(self._message) < 4 + length:
            return None
        body = bytes(self._message[4 : 4 + length])
        del self._message[: 4 + length]
        return body

    def second(self, hello: ClientHello) -> "SecondHello":
        """A reader for what follows the hello, with what came of that already."""
        return SecondHello(bytes(self._message), bytes(self._records), hello.has_early_data)

    def _next_record(self) -> bytes | None:
        head = self._records[:5]
        if head and head[0] & _SSL2:
            raise Malformed("it is an SSLv2 hello, which names no server")
        if head and head[0] != HANDSHAKE:
            raise Malformed("not a TLS handshake")
        if len(head) > 1 and head[1] != _MAJOR:
            raise Malformed(f"its record has the major version {head[1]}, TLS has {_MAJOR}")
        if len(head) < 5:
            return None
        length = int.from_bytes(head[3:5], "big")
        if not 0 < length <= _LONGEST_RECORD:
            raise Malformed(f"a TLS record cannot have {length} bytes")
        if len(self._records) < 5 + length:
            return None
        record = bytes(self._records[5 : 5 + length])
        del self._records[: 5 + length]
        return record


class SecondHello:
    """Looks for one more hello behind the first, until it is known that none comes in the clear.

    Encrypted bytes may look like the start of one, but not like a whole one: so nothing has to be held.
    """

    def __init__(self, message: bytes, records: bytes, has_early_data: bool) -> None:
        """`message` is what the last record had behind the first hello, `records` what came after that."""
        self._message, self._head = bytearray(message), b""
        self._kind, self._left = HANDSHAKE, 0
        self._unread, self._has_early_data = records, has_early_data
        self.is_over = False

    def feed(self, data: bytes) -> ClientHello | None:
        """The hello that these bytes complete, if any. Raises `Malformed`."""
        rest, self._unread = memoryview(self._unread + data), b""  # cutting it copies nothing
        hello = self._whole()
        while rest and hello is None and not self.is_over:
            if self._left:
                piece, rest = rest[: self._left], rest[self._left :]
                self._left -= len(piece)
                self._message += piece if self._kind == HANDSHAKE else b""
                hello = self._whole()
            else:
                missing = 5 - len(self._head)
                self._head, rest = self._head + bytes(rest[:missing]), rest[missing:]
                self._begin_record()
        return hello

    def _begin_record(self) -> None:
        if len(self._head) == 5:
            self._kind, self._left = self._head[0], int.from_bytes(self._head[3:], "big")
            self._head = b""
            self.is_over = self._kind == APPLICATION_DATA and not self._has_early_data

    def _whole(self) -> ClientHello | None:
        length = int.from_bytes(self._message[1:4], "big")
        if self._message and (self._message[0] != CLIENT_HELLO or length > _LONGEST_TAKEN):
            self.is_over = True
        elif len(self._message) >= 4 + length:
            self.is_over = True
            return parse_hello(bytes(self._message[4 : 4 + length]))
        return None


def begins_like_tls(data: bytes) -> bool | None:
    """Whether some server may take this for TLS, valid or not; None while that is not known."""
    if data and data[0] & _SSL2:
        return data[2] == _SSL2_HELLO and data[3] <= _LAST_MAJOR if len(data) > 3 else None
    for _ in range(_MOST_RECORDS):
        if data and data[0] not in _RECORDS:
            return False
        if len(data) > 1 and data[1] == _MAJOR:
            return True
        if len(data) < 5:
            return None
        kind, length = data[0], int.from_bytes(data[3:5], "big")
        if kind == HANDSHAKE and length:
            return data[5] == CLIENT_HELLO if len(data) > 5 else None
        if length > _LONGEST_BEFORE:
            return False
        if len(data) < 5 + length:
            return None
        data = data[5 + length :]
    return True


def parse_hello(body: bytes) -> ClientHello:
    """The body of a client_hello message."""
    hello = _Cursor(body)
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    name: str | None = None
    alpn: tuple[str, ...] = ()
    seen: set[int] = set()
    extensions = hello.block(2) if hello.left else _Cursor(b"")
    if hello.left:
        raise Malformed("something follows the extensions of the TLS hello")
    while extensions.left:
        kind = extensions.number(2)
        content = extensions.block(2)
        if kind in seen:
            raise Malformed(f"the TLS hello has the extension {kind} twice")
        seen.add(kind)
        if kind == SERVER_NAME:
            name = _server_name(content)
        elif kind == ALPN:
            alpn = _protocols(content)
    return ClientHello(name, alpn, not _HIDING.isdisjoint(seen), EARLY_DATA in seen)


def _server_name(content: _Cursor) -> str:
    names = content.block(2)
    kind, name = names.number(1), names.block(2).data
    if kind != 0 or names.left or content.left or not name:
        raise Malformed("the TLS hello does not name exactly one server")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the TLS server name is not ASCII") from None


def _protocols(content: _Cursor) -> tuple[str, ...]:
    names = content.block(2)
    found = []
    while names.left:
        found.append(names.block(1).data.decode("latin-1"))
    return tuple(found)
