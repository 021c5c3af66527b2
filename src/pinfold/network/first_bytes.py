"""What a client speaks, by the first bytes it sends through a tunnel. Sans-io.

TLS and HTTP name a host of their own, which must be the one that was asked for; other protocols name none.

Facts:
- TLS begins with 0x16 0x03. Nothing else in common use does.
- What servers take for HTTP/1: a line that ends in `HTTP/` and a version, whatever its method; some pass over
  empty lines before it, some take small letters, a bare LF, spaces at the end, any byte but NUL in its path.
- HTTP/2 without TLS begins with the line `PRI * HTTP/2.0`; its host is compressed, so it cannot be compared.
- Clients of other protocols may send a few letters and wait for an answer.

What this means for us: text is held until its first line is known, but only for a moment. What is let through
before the line is over is still watched, and the connection ended before the line is whole if it turns out to
be HTTP: half of a request line is no request.
"""

import re
from enum import Enum

_LONGEST_HELD = 65536
_TEXT = frozenset((*range(9, 14), *range(32, 256))) - {127}
_BLANKS = re.compile(rb"[\t\v\f\r ]+")
_HTTP_LINE = re.compile(rb"[\t\v\f\r ]HTTP/[0-9][0-9.]*[\t\v\f\r ]*$", re.IGNORECASE)
_LONGEST_END = 64


class Protocol(Enum):
    TLS = "TLS"
    HTTP = "HTTP"
    OTHER = "other"


class FirstBytes:
    """Takes bytes as they come, until it is known what they are."""

    def __init__(self) -> None:
        self._start = b""
        self._end = b""
        self._length = 0
        self._is_text = True
        self.protocol: Protocol | None = None

    @property
    def is_doubtful(self) -> bool:
        """It may still be TLS or HTTP, and is worth holding for a moment."""
        return self.protocol is None and self._is_text and self._length <= _LONGEST_HELD

    def feed(self, data: bytes) -> Protocol | None:
        """None as long as it is not known."""
        if self.protocol is None:
            self.protocol = self._look(data)
        return self.protocol

    def _look(self, data: bytes) -> Protocol | None:
        if not self._start:
            data = data.lstrip(b"\r\n\t ")
        if len(self._start) < 2:
            self._start = (self._start + data)[:2]
            if self._start == b"\x16\x03":
                return Protocol.TLS
            if self._start == b"\x16":
                return None
        line, newline, _ = data.partition(b"\n")
        self._is_text = self._is_text and _TEXT.issuperset(line)
        self._length += len(line)
        self._end = _BLANKS.sub(b" ", self._end + line)[-_LONGEST_END:]
        if not newline:
            return None
        return Protocol.HTTP if self._start[0] != 0x16 and _HTTP_LINE.search(self._end) else Protocol.OTHER
