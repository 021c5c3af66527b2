"""What a client speaks, by the first bytes it sends through a tunnel. Sans-io.

TLS and HTTP name a host of their own, which must be the one that was asked for; other protocols name none.

Facts:
- TLS begins with 0x16 0x03. Nothing else in common use does. Some servers (Go's) pass over a warning before
  the hello, so whatever begins as any record does counts; what is no hello is then refused.
- What servers take for HTTP/1: a line that ends in `HTTP/` and a version, whatever its method; some pass over
  empty lines before it, some take small letters, a bare LF, spaces at the end, any byte but NUL in its path,
  any number of zeros in its version (nginx), what Python calls white space between its words.
- HTTP/0.9 is a line without a version, and knows no method but GET. Its path names no host, but nginx takes
  one from a whole target (`GET http://host/`), with any scheme.
- HTTP/2 without TLS begins with the line `PRI * HTTP/2.0`; its host is compressed, so it cannot be compared.
- Clients of other protocols may send a few letters and wait for an answer.
- PostgreSQL's ask for TLS by eight bytes (SSLRequest; GSSENCRequest asks for Kerberos', and the other may
  follow), and wait: only after the server's one byte the hello comes, or what they say in the clear.
- A balancer may say to its server whose a connection is (the PROXY protocol), before TLS or HTTP: by a line,
  `PROXY TCP4 ...` or `PROXY UNKNOWN` and whatever else, or by empty lines, NUL, CR LF, `QUIT` and numbers.

What this means for us: text is held until its first line is known, but only for a moment. What is let through
before the line is over is still watched, and the connection ended before the line is whole if it turns out to
be HTTP: half of a request line is no request. Behind a request for TLS everything begins anew; who does not
wait for the answer to it is no such client, and counts as TLS without a hello.
"""

import re
from enum import Enum

_LONGEST_HELD = 65536
_TEXT = frozenset((*range(9, 14), *range(32, 256))) - {127}
_RECORDS = frozenset((0x14, 0x15, 0x16, 0x17, 0x18))
"""Kinds of TLS records."""
_BLANKS = re.compile(rb"[\t\v\f\r\x1c-\x20\x85\xa0]+")
_DIGITS = re.compile(rb"[0-9]+")
_HTTP_LINE = re.compile(rb" HTTP/0[0.]* ?$", re.IGNORECASE)
"""With one space for blanks, and one zero for digits."""
_OLD = b"get "
_PROXY_LINES = (b"PROXY TC", b"PROXY UN")
_PROXY_BLOCK = b"\0\r\nQUIT\n"
"""Behind empty lines, which are passed over."""
_REQUESTS_FOR_TLS = (b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30")
_LONGEST_START, _LONGEST_END = 8, 64


class Protocol(Enum):
    TLS = "TLS"
    HTTP = "HTTP"
    PROXY = "PROXY"
    """Somebody else's connection, it says; what it speaks comes behind that."""
    OTHER = "other"


class FirstBytes:
    """Takes bytes as they come, until it is known what they are."""

    def __init__(self) -> None:
        self._unread = b""
        """Bytes that may become one of the starts that are no text."""
        self._start = b""
        self._end = b""
        self._length = 0
        self._has_scheme = False
        self._is_text = True
        self.has_asked_for_tls = False
        """As PostgreSQL's clients do, before the hello."""
        self._is_waiting = False
        """For the answer to that."""
        self.protocol: Protocol | None = None

    @property
    def is_doubtful(self) -> bool:
        """It may still be TLS or HTTP, and is worth holding for a moment."""
        is_held = self._is_text and not self._unread and not self._is_waiting
        return self.protocol is None and is_held and self._length <= _LONGEST_HELD

    def feed(self, data: bytes) -> Protocol | None:
        """None as long as it is not known."""
        if self.protocol is None:
            self.protocol = self._look(data)
        return self.protocol

    def _look(self, data: bytes) -> Protocol | None:
        if not self._start:
            self._is_waiting = self._is_waiting and not data
            data, self._unread = (self._unread + data).lstrip(b"\r\n\t "), b""
            if data.startswith(_PROXY_BLOCK):
                return Protocol.PROXY
            if data.startswith(_REQUESTS_FOR_TLS):
                return self._ask_for_tls(data)
            if data and any(start.startswith(data) for start in (_PROXY_BLOCK, *_REQUESTS_FOR_TLS)):
                self._unread = data
                return None
        self._start = (self._start + data)[:_LONGEST_START]
        if self._may_be_record and self._start[1:2] == b"\x03":
            return Protocol.TLS
        if self._may_be_record and len(self._start) == 1:
            return None
        line, newline, _ = data.partition(b"\n")
        self._is_text = self._is_text and _TEXT.issuperset(line)
        self._length += len(line)
        end = _DIGITS.sub(b"0", _BLANKS.sub(b" ", self._end + line))
        self._has_scheme = self._has_scheme or b"://" in end
        self._end = end[-_LONGEST_END:]
        if not newline:
            return None
        if self._start.startswith(_PROXY_LINES):
            return Protocol.PROXY
        return Protocol.HTTP if self._is_http else Protocol.OTHER

    def _ask_for_tls(self, data: bytes) -> Protocol | None:
        self.has_asked_for_tls = self._is_waiting = True
        return Protocol.TLS if data not in _REQUESTS_FOR_TLS else None

    @property
    def _may_be_record(self) -> bool:
        return bool(self._start) and self._start[0] in _RECORDS

    @property
    def _is_http(self) -> bool:
        """Of a line that is whole."""
        is_old = self._has_scheme and _BLANKS.sub(b" ", self._start[: len(_OLD)]).lower() == _OLD
        return not self._may_be_record and (is_old or bool(_HTTP_LINE.search(self._end)))
