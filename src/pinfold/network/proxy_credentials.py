"""Looks for the credentials of the company's proxy in what comes back from it. Sans-io.

Facts: TRACE is answered with the request (RFC 9110, 9.3.8), by a proxy itself if `Max-Forwards` is 0. Squid
has shown all headers of a request in its error pages, in the text and percent-encoded in a link (`%R` and
`%W`, CVE-2025-62168). Error pages come compressed if the client accepts that.

What this means for the gate: it passes no TRACE to a proxy, and neither `Max-Forwards` nor `Accept-Encoding`
(`http_heads`). It holds bytes that may become the credentials until it knows. After a hit the proxy gets no
more requests (`dial`): each would show a program whether its guess, sent to it by some server, is right.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from urllib.parse import quote_from_bytes

_HEX = re.compile(rb"%[0-9A-F]{2}")
_SHORTEST = 6
"""The shortest text that is looked for: shorter ones are in every page."""


ECHOED = (
    "this machine's proxy sent its credentials back in a response, so pinfold sends it no more plain requests"
)


class EchoedCredentialsError(Exception):
    """A response contains the credentials."""


class ProxyEcho:
    def __init__(self, authorization: bytes) -> None:
        """Preconditions: it is a scheme and its value, as `Proxy-Authorization` has it."""
        value = authorization.partition(b" ")[2]
        self._wanted = tuple(sorted({each for each in _spellings(value) if len(each) >= _SHORTEST}))
        self._held = b""

    def require_none(self, *texts: bytes) -> None:
        """Raises `EchoedCredentialsError` if one of these contains the credentials."""
        if any(wanted in text for text in texts for wanted in self._wanted):
            raise EchoedCredentialsError

    def feed(self, data: bytes) -> bytes:
        """The part of a body that may pass by now. Raises `EchoedCredentialsError`."""
        data = self._held + data
        self.require_none(data)
        until = len(data) - self._beginning_at_the_end_of(data)
        self._held = data[until:]
        return data[:until]

    def rest(self) -> bytes:
        """What is still held when a body is over."""
        rest, self._held = self._held, b""
        return rest

    def _beginning_at_the_end_of(self, data: bytes) -> int:
        longest = max(map(len, self._wanted), default=1) - 1
        lengths = range(min(longest, len(data)), 0, -1)
        return next((length for length in lengths if self._begins(data[-length:])), 0)

    def _begins(self, end: bytes) -> bool:
        return any(wanted.startswith(end) for wanted in self._wanted)


def _spellings(value: bytes) -> Iterator[bytes]:
    """The value without its padding and what it encodes, plain and escaped as in pages and links."""
    plain = [value.rstrip(b"=")]
    with suppress(Error):  # not a `Basic` one
        plain.append(b64decode(value, validate=True))
    for text in plain:
        percent = quote_from_bytes(text, safe="").encode()
        page = escape(text.decode("latin-1")).encode("latin-1")
        yield from (text, percent, _HEX.sub(lambda found: found[0].lower(), percent), page)
        yield page.replace(b"+", b"&#43;").replace(b"/", b"&#47;")
        yield page.replace(b"+", b"&#x2B;").replace(b"/", b"&#x2F;")
