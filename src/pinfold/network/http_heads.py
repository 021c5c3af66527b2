"""Heads of requests and responses: which are refused, which host they name, what of them passes on. Pure.

Facts about h11 0.16, which parses them: it accepts Content-Length together with Transfer-Encoding, lines that
end in a bare LF, and folded headers. It refuses a second Host and a missing one.

The gate refuses those three, and also: characters that end a line for some servers; a request line that is
not exactly one of HTTP/1; headers that some servers read as Host or a length (`Content_Length`); a Host that
differs from the target; credentials in the target; targets of another scheme than http; and any request that
names another host than the first one did. The gate offers no HTTP/2 to the server, since it could not compare
the host: it removes the client's request to upgrade.

Facts about bodies: some servers leave the body of a GET unread, or of any method (Python's `http.server`).
They take it for the next request, whose host the gate has not compared. A server that gets
`Connection: close` reads no other request. So a request with a body is the last on its connection.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pinfold.model.hosts import is_same
from pinfold.network.refusal import Malformed
from pinfold.network.upstream import UpstreamProxy

if TYPE_CHECKING:
    import h11
from pinfold.model.hosts import canonical
from pinfold.network.refusal import RefusalKind

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?")


class HttpTarget(NamedTuple):
    host: str
    """Canonical."""
    port: int

    @property
    def authority(self) -> str:
        """The target as a Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 80 else f"{host}:{self.port}"


def parse_authority(text: str, default: int | None) -> HttpTarget:
    """Parses `host:port`, or `host` if there is a default port."""
    found = _AUTHORITY.fullmatch(text)
    if not found:
        raise Malformed("the request target is not `host:port`")
    port = int(found[2]) if found[2] else default
    if port is None or not 0 < port < 65536:
        raise Malformed("the request target has no port from 1 to 65535")
    try:
        return HttpTarget(canonical(found[1]), port)
    except ValueError as error:
        raise Malformed(str(error)) from None


def split_target(text: str) -> tuple[str, str]:
    """Authority and path of an absolute `http:` target."""
    scheme, colon, rest = text.partition("://")
    if not colon or scheme.lower() != "http":
        raise Malformed("a request to a proxy needs CONNECT or a target that begins with `http://`")
    authority, slash, path = rest.partition("/")
    if not slash:
        authority, mark, path = rest.partition("?")
        return authority, f"/?{path}" if mark else "/"
    if "?" in authority or "#" in rest:
        raise Malformed("the request target is not `http://host/path`")
    return authority, f"/{path}"


def refusal_page(why: RefusalKind, message: str) -> bytes:
    """A complete response that says why, in its status line and in its body."""
    body = f"pinfold: {message}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {why.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nX-Proxy-Error: pinfold-{why.code}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


LONGEST_HEAD = 65536
"""Node and Apache allow 8 kB for a line, IIS 16 kB for all; cookies of some services need more."""
MOST_HEADERS = 512
"""Apache takes 100, Node 2,000. Parsing as many as fit would keep all other connections waiting."""
CLOSE, UPGRADE = (b"Connection", b"close"), (b"Connection", b"Upgrade")
PLAINLY = (b"Accept-Encoding", b"identity")
_END = b"\r\n\r\n"
_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP/1\.[01]\r\n")
_BARE = re.compile(rb"(?<!\r)\n|\r[^\n]|\n[ \t]|\0")
# Python's `splitlines` ends lines at these: old servers written in Python read the rest as another header.
_SPLIT = re.compile(
    rb"[\x01-\x08\v\f\x0e-\x1f\x7f]|\x85[ \t]*(?:host|content-length|transfer-encoding)[ \t]*:", re.IGNORECASE
)
# Headers between client and proxy, and those that offer a protocol whose hosts could not be compared.
_OURS = frozenset((b"proxy-authorization", b"proxy-connection", b"proxy-authenticate", b"http2-settings"))
_UNCHECKED = (b"h2", b"h3", b"http", b"tls")
"""Prefixes of protocols that name hosts of their own."""
_TRACES = frozenset((b"TRACE", b"TRACK"))
_NOT_FOR_PROXIES = frozenset((b"upgrade", b"connection", b"max-forwards"))
_ENCODINGS = frozenset((b"accept-encoding", b"te"))
_FRAMING = frozenset((b"host", b"content-length", b"transfer-encoding"))

Headers = list[tuple[bytes, bytes]]


class HeadReader:
    """Reads a request's head as it comes, and judges its lines before h11 sees them."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._judged = 0
        self._is_request = False

    @property
    def is_begun(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> tuple[bytes, bytes] | None:
        """The complete head and what follows it; None until the head is complete. Then it starts anew."""
        self._data += data
        end = self._data.find(_END, max(0, self._judged - len(_END)))
        until = end + len(_END) if end >= 0 else len(self._data)
        if _BARE.search(self._data, max(0, self._judged - 2), until):
            raise Malformed("a line of the request ends in a bare CR or LF, or is folded")
        self._judge_line()
        self._judged = len(self._data)
        if until > LONGEST_HEAD:
            raise Malformed(f"the head of the request is longer than {LONGEST_HEAD} bytes")
        if end < 0:
            return None
        if self._data.count(b"\n", 0, until) > MOST_HEADERS:
            raise Malformed(f"the head of the request has more than {MOST_HEADERS} lines")
        if _SPLIT.search(self._data, 0, until):
            raise Malformed("a header of the request has a character that ends a line for some servers")
        head, rest = bytes(self._data[:until]), bytes(self._data[until:])
        self._data.clear()
        self._judged, self._is_request = 0, False
        return head, rest

    def _judge_line(self) -> None:
        """Judges the first line as soon as it is complete: another line may never come."""
        if not self._is_request and b"\n" in self._data:
            if not _LINE.match(self._data):
                raise Malformed("the request does not begin with a line `METHOD TARGET HTTP/1.1`")
            self._is_request = True


class RequestMeaning(NamedTuple):
    """What a request asks for."""

    target: HttpTarget
    path: str = ""
    is_tunnel: bool = False
    """Whether it is a CONNECT."""
    is_upgrade: bool = False
    """Whether the connection may change to another protocol."""
    has_body: bool = False


def interpret(request: h11.Request, within: HttpTarget | None) -> RequestMeaning:
    """What a request asks for. `within` is the host of its tunnel; None at the proxy's own face."""
    if request.http_version not in (b"1.0", b"1.1"):
        raise Malformed("only HTTP/1.0 and HTTP/1.1 requests are supported here")
    lengths = [value for name, value in request.headers if name == b"content-length"]
    codings = [value for name, value in request.headers if name == b"transfer-encoding"]
    if (lengths and codings) or len(codings) > 1:
        raise Malformed("conflicting Content-Length and Transfer-Encoding headers")
    for name, _ in request.headers:
        if name not in _FRAMING and re.sub(rb"[^a-z]", b"-", name) in _FRAMING:
            raise Malformed(f"some servers take the header `{name.decode()}` for another one")
    has_body = bool(codings) or any(int(length) for length in lengths)
    target = request.target.decode("latin-1")
    if request.method == b"CONNECT":
        if lengths or codings or within:
            raise Malformed("CONNECT must have no body, and must go to a proxy")
        wanted = parse_authority(target, None)
        _require_agreement(request, wanted, wanted.port, within)
        return RequestMeaning(wanted, is_tunnel=True)
    if target.startswith("/") or target == "*":
        if not within:
            raise Malformed("this is a proxy: the target of a request must begin with `http://`")
        wanted, path = within, target
        _require_agreement(request, wanted, wanted.port, within)
    else:
        authority, path = split_target(target)
        wanted = parse_authority(authority, 80)
        _require_agreement(request, wanted, 80, within)
        if within not in (None, wanted):
            raise Malformed("the request target names another host than the connection")
    return RequestMeaning(wanted, path, is_upgrade=_is_upgrade(request) and not has_body, has_body=has_body)


def _require_agreement(
    request: h11.Request, wanted: HttpTarget, default: int, within: HttpTarget | None
) -> None:
    """INVARIANT: the Host of a request is the host it is sent to."""
    for name, value in request.headers:
        if name != b"host":
            continue
        said = parse_authority(value.decode("latin-1"), default)
        # A program may call a shared loopback port by any of its names.
        is_lent = within and said.port == wanted.port and is_same(said.host, wanted.host)
        if said != wanted and not is_lent:
            raise Malformed("the Host header names another host than the request target")


def _is_upgrade(request: h11.Request) -> bool:
    offers = (value.lower().split(b",") for name, value in request.headers if name == b"upgrade")
    upgrades = {offer.strip() for several in offers for offer in several}
    return bool(upgrades) and not any(upgrade.startswith(_UNCHECKED) for upgrade in upgrades)


def request_headers(request: h11.Request, meant: RequestMeaning, *, is_last: bool) -> Headers:
    """The headers for the server; `is_last` if its connection is for this one request."""
    headers = []
    for raw, value in request.headers.raw_items():
        name = raw.lower()
        if name in _OURS or name == b"connection" or (name == b"upgrade" and not meant.is_upgrade):
            continue
        headers.append((raw, value))
    if not any(name == b"host" for name, _ in request.headers):
        headers.insert(0, (b"Host", meant.target.authority.encode()))
    if meant.is_upgrade:
        headers.append(UPGRADE)
    elif is_last:
        headers.append(CLOSE)
    return headers


def upstream_headers(request: h11.Request, via: UpstreamProxy, *, is_last: bool) -> Headers:
    """The headers for a proxy that the request goes to in place of the server.

    INVARIANT: none of them makes the proxy send its credentials back.
    """
    if request.method.upper() in _TRACES:
        raise Malformed(f"{request.method.decode()} would make this machine's proxy reveal its credentials")
    headers = _without(request, _NOT_FOR_PROXIES | (_ENCODINGS if via.authorization else frozenset()))
    if is_last:
        headers.append(CLOSE)
    if via.authorization:
        headers += (PLAINLY, (b"Proxy-Authorization", via.authorization))
    return headers


def response_headers(response: h11.Response, *, is_of_proxy: bool, is_last: bool) -> Headers:
    """The headers for the client."""
    headers = _without(response, frozenset((b"connection", *(_OURS if is_of_proxy else ()))))
    ends = any(name == b"connection" and b"close" in value.lower() for name, value in response.headers)
    if is_last or ends:
        headers.append(CLOSE)
    return headers


def _without(message: h11.Request | h11.Response, names: frozenset[bytes]) -> Headers:
    return [(raw, value) for raw, value in message.headers.raw_items() if raw.lower() not in names]
