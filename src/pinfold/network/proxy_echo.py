"""Looks for the credentials of the company's proxy in what comes back from it. Sans-io.

Facts: TRACE is answered with the request (RFC 9110, 9.3.8), by a proxy itself where `Max-Forwards` is 0.
Squid has shown all headers of a request in its error pages, in the text and percent-encoded in a link (`%R`
and `%W`, CVE-2025-62168). Error pages come compressed where the client takes that.

What this means for us: TRACE is not passed on to a proxy, nor are `Max-Forwards` and `Accept-Encoding`
(`http_heads`). What may become the credentials is held until it is known. After a hit the proxy gets no more
requests (`dial`): each would tell a program whether its guess, which some server sends it, is right.
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
"""Characters of what is looked for: fewer are in every page."""


ECHOED = "the proxy of this machine sends its credentials back, so it gets no more plain requests"


class EchoedCredentialsError(Exception):
    """The credentials are in an answer."""


class ProxyEcho:
    def __init__(self, authorization: bytes) -> None:
        """Preconditions: it is a scheme and its value, as `Proxy-Authorization` has it."""
        value = authorization.partition(b" ")[2]
        self._wanted = tuple(sorted({each for each in _spellings(value) if len(each) >= _SHORTEST}))
        self._held = b""

    def require_none(self, *texts: bytes) -> None:
        """Raises `EchoedCredentialsError` if one of these has them."""
        if any(wanted in text for text in texts for wanted in self._wanted):
            raise EchoedCredentialsError

    def feed(self, data: bytes) -> bytes:
        """What of a body may go on by now; raises `EchoedCredentialsError`."""
        data = self._held + data
        self.require_none(data)
        until = len(data) - self._beginning_at_the_end_of(data)
        self._held = data[until:]
        return data[:until]

    def rest(self) -> bytes:
        """What is left of a body that is over."""
        rest, self._held = self._held, b""
        return rest

    def _beginning_at_the_end_of(self, data: bytes) -> int:
        longest = max(map(len, self._wanted), default=1) - 1
        lengths = range(min(longest, len(data)), 0, -1)
        return next((length for length in lengths if self._begins(data[-length:])), 0)

    def _begins(self, end: bytes) -> bool:
        return any(wanted.startswith(end) for wanted in self._wanted)


def _spellings(value: bytes) -> Iterator[bytes]:
    """The value without its padding, and what it encodes: plain, and as pages and links have them."""
    plain = [value.rstrip(b"=")]
    with suppress(Error):  # it is no `Basic` one
        plain.append(b64decode(value, validate=True))
    for text in plain:
        percent = quote_from_bytes(text, safe="").encode()
        page = escape(text.decode("latin-1")).encode("latin-1")
        yield from (text, percent, _HEX.sub(lambda found: found[0].lower(), percent), page)
        yield page.replace(b"+", b"&#43;").replace(b"/", b"&#47;")
        yield page.replace(b"+", b"&#x2B;").replace(b"/", b"&#x2F;")
