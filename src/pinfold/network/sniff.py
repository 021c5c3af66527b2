"""Which protocol a client speaks, by the first bytes it sends through a tunnel. Sans-io.

TLS and HTTP name a host of their own, which must be the one that was asked for; other protocols name none.

Facts:
- TLS is records: a kind, a version, a length. Clients write 3 for the major version; Go's server takes any
  below 16, GnuTLS's any below 4. Servers skip warnings and empty records before the hello (Go). What is
  no hello as `client_hello` reads it is then refused.
- A hello of SSLv2 (`0x80` and up, a length, 1) is taken by OpenSSL and Java, and names no server.
- What servers take for HTTP/1: a line that ends in `HTTP/` and a version, with any method. Some skip empty
  lines before it, some take small letters, a bare LF, spaces at the end, any byte but NUL in its path,
  any number of zeros in its version (nginx), what Python calls white space between its words. Node takes
  `RTSP/1.0` and `ICE/1.0` for HTTP, Apache any word (`HttpProtocolOptions Unsafe`).
- A bare CR ends a line for some servers (mini_httpd, thttpd), and so does NUL; both of these take the usual
  methods in small letters, and any third word for a version. busybox leaves every CR out. Python's
  `http.server` takes what comes before the end of the connection for a line.
- HTTP/0.9 is a line without a version. Its path names no host, but nginx takes one from a whole target
  (`GET http://host/`), with any scheme; Node reads headers behind it, with any method.
- HTTP/2 without TLS begins with the line `PRI * HTTP/2.0`; its host is compressed, so it cannot be compared.
- Clients of other protocols may send a few letters and wait for an answer.
- PostgreSQL's clients ask for TLS by eight bytes (SSLRequest; GSSENCRequest asks for Kerberos', and the other
  may follow), and wait. Only after the server's one byte comes the hello, or what they send in the clear.
- A load balancer may send its server the origin of a connection (the PROXY protocol), before TLS or HTTP: by
  a line, `PROXY TCP4 ...` or `PROXY UNKNOWN` and more, or by empty lines, NUL, CR LF, `QUIT` and numbers.

What this means for the gate: it holds text until the first line is known, but only for a moment. Then the
text counts as what it would be if nothing followed (`as_it_is`). The gate still inspects what passes before
the line is over, and ends the connection as soon as a server could take it for a request. Behind a request
for TLS all begins anew. A client that does not wait for the answer to it is no such client, and counts as TLS
without a hello.
"""

import re
from enum import Enum

from pinfold.network.client_hello import begins_like_tls

_LONGEST_HELD = 65536
_TEXT = frozenset((*range(9, 14), *range(32, 256))) - {127}
_PASSED_OVER = b"\t\n\v\f\r\x1c\x1d\x1e\x1f "
_BLANKS = re.compile(rb"[\t\v\f\r\x1c-\x20\x85\xa0]+")
_BLANKS_WITHIN = re.compile(rb"[\t\v\f\x1c-\x20\x85\xa0]+")
_DIGITS = re.compile(rb"[0-9]+")
# Of a line with one space for blanks, and one zero for digits: its end ...
_HTTP_END = re.compile(rb" HTTP/0[0.]* ?$", re.IGNORECASE)
_VERSION_END = re.compile(rb" [A-Z][A-Z0-]*/0\.0 ?$", re.IGNORECASE)
# ... or, of a line as it came, where a CR or NUL ends it ...
_B = rb"[\t\v\f\x1c-\x20\x85\xa0]"
_HTTP_CR = re.compile(_B + rb"HTTP/[0-9][0-9.]*" + _B + rb"*[\r\0]", re.IGNORECASE)
_VERSION_CR = re.compile(_B + rb"[A-Z][A-Z0-9-]*/[0-9]+\.[0-9]+" + _B + rb"*[\r\0]", re.IGNORECASE)
# ... and its beginning: two words before that; a method, and a path or a whole target.
_TWO_WORDS = re.compile(rb"[^ ]+ [^ ]+ [^ ]")
_METHODS = rb"(?i:GET|HEAD|POST|PUT|DELETE|OPTIONS|TRACE|PATCH|CONNECT)"
_METHOD_AND_TARGET = re.compile(
    rb"[A-Z][A-Z_-]* (/|\* ?$|[^ ]*://)|" + _METHODS + rb" ([^ ]*://|/[^ ]* [^ ])"
)
_LONG_TARGET = re.compile(_METHODS + rb" /[^ ]*$")
"""Matches the start of a line that is longer than the start: there may be a third word."""
_PROXY_LINES = (b"PROXY TC", b"PROXY UN")
_PROXY_BLOCK = b"\0\r\nQUIT\n"
"""Follows empty lines, which are skipped."""
_REQUESTS_FOR_TLS = (b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30")
_LONGEST_START, _LONGEST_END = 1024, 64
_AT_ONCE = 2048
"""Bytes that are normalised at once: more would keep other connections waiting."""


class Protocol(Enum):
    TLS = "TLS"
    HTTP = "HTTP"
    PROXY = "PROXY"
    """A PROXY-protocol header; the connection's own protocol follows it."""
    OTHER = "other"


class FirstBytes:
    """Takes bytes as they come, until their protocol is known."""

    def __init__(self) -> None:
        self._unread = b""
        """Bytes that may become TLS, or one of the starts that are not text."""
        self._is_line = False
        """Whether it is neither, so that its first line counts."""
        self._line, self._without_cr = _FirstLine(), _FirstLine()
        self._last = b""
        """The end of what came, with each CR in its place."""
        self._length = 0
        self._is_text = True
        self.has_asked_for_tls = False
        """Whether the client asked for TLS before the hello, as PostgreSQL's do."""
        self.is_waiting = False
        """Whether the client waits for the answer to that; what comes then begins anew."""
        self.protocol: Protocol | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether it may still be TLS or HTTP, and is to be held for a moment."""
        is_held = self._is_text and not self._is_a_start and not self.is_waiting
        return self.protocol is None and is_held and self._length <= _LONGEST_HELD

    @property
    def _is_a_start(self) -> bool:
        """Whether what came may become one of those starts, and not TLS."""
        return bool(self._unread) and self._unread[:1] == b"\0"

    @property
    def as_it_is(self) -> Protocol | None:
        """What a server may take it for if nothing more comes."""
        if self.protocol is None and self._is_line and (self._line.is_http or self._without_cr.is_http):
            return Protocol.HTTP
        return self.protocol

    def feed(self, data: bytes) -> Protocol | None:
        """The protocol; None while it is not known."""
        if self.protocol is None:
            self.protocol = self._look(data)
        return self.protocol

    def _look(self, data: bytes) -> Protocol | None:
        if not self._is_line:
            self.is_waiting = self.is_waiting and not data
            data, self._unread = self._unread + data, b""
            data = data.lstrip(_PASSED_OVER)
            if data.startswith(_PROXY_BLOCK):
                return Protocol.PROXY
            if data.startswith(_REQUESTS_FOR_TLS):
                return self._ask_for_tls(data)
            is_tls = begins_like_tls(data)
            if is_tls:
                return Protocol.TLS
            if is_tls is None or any(start.startswith(data) for start in (_PROXY_BLOCK, *_REQUESTS_FOR_TLS)):
                self._unread = data
                return None
            self._is_line = True
        return self._read_line(data)

    def _ask_for_tls(self, data: bytes) -> Protocol | None:
        self.has_asked_for_tls = self.is_waiting = True
        return Protocol.TLS if data not in _REQUESTS_FOR_TLS else None

    def _read_line(self, data: bytes) -> Protocol | None:
        line, newline, _ = data.partition(b"\n")
        self._is_text = self._is_text and _TEXT.issuperset(line)
        self._length += len(line)
        self._line.take(line)
        self._without_cr.take(line.replace(b"\r", b""))
        last = self._last + line
        self._last = _end_of(last, _BLANKS_WITHIN)
        is_ended = b"\r" in last or b"\0" in last
        is_http = is_ended and self._line.is_http_before_cr(last)
        if not newline and not is_http:
            return None
        if self._line.start.startswith(_PROXY_LINES):
            return Protocol.PROXY
        is_http = is_http or self._line.is_http or self._without_cr.is_http
        return Protocol.HTTP if is_http else Protocol.OTHER


class _FirstLine:
    """The two ends of a line of any length that comes in pieces."""

    def __init__(self) -> None:
        self.start = self._end = b""

    def take(self, piece: bytes) -> None:
        at = 0
        while at < len(piece) and len(self.start) < _LONGEST_START:
            self.start = _plain(self.start + piece[at : at + _AT_ONCE])[:_LONGEST_START]
            at += _AT_ONCE
        self._end = _end_of(self._end + piece)

    @property
    def is_http(self) -> bool:
        """Whether the line is HTTP if it ends here."""
        has_version = _VERSION_END.search(self._end) and _TWO_WORDS.match(self.start)
        return bool(_HTTP_END.search(self._end) or has_version or self._has_method_and_target)

    def is_http_before_cr(self, last: bytes) -> bool:
        """Whether the line is HTTP if a CR or NUL ends it. `last` is its end with these in place."""
        has_version = _VERSION_CR.search(last) and _TWO_WORDS.match(self.start)
        return bool(_HTTP_CR.search(last) or has_version or self._has_method_and_target)

    @property
    def _has_method_and_target(self) -> bool:
        is_long = len(self.start) == _LONGEST_START
        return bool(_METHOD_AND_TARGET.match(self.start) or (is_long and _LONG_TARGET.match(self.start)))


def _plain(line: bytes, blanks: re.Pattern[bytes] = _BLANKS) -> bytes:
    return _DIGITS.sub(b"0", blanks.sub(b" ", line))


def _end_of(line: bytes, blanks: re.Pattern[bytes] = _BLANKS) -> bytes:
    """The end of a normalised line, without looking at most of a long one."""
    end, at = b"", len(line)
    while at > 0 and len(end) < _LONGEST_END:
        end = _plain(line[max(0, at - _AT_ONCE) : at] + end, blanks)
        at -= _AT_ONCE
    return end[-_LONGEST_END:]
