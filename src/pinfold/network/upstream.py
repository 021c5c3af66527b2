"""A company's proxy, through which the gate reaches the outside.

The gate uses CONNECT, except for plain HTTP: it sends such requests with their whole target, since many
proxies allow CONNECT to port 443 alone. A program that knows no proxy has sent nothing yet when its
connection is made. So port 80 begins with CONNECT too; where the proxy refuses that, it gets requests alone.

Facts about the variables: there is no standard. All programs understand names in lower case, most in upper
case. `no_proxy` lists names, each with all subdomains, addresses and networks, for some programs with a
port; `*` is everything.
"""

import asyncio
import re
import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pinfold.model.hosts import is_address

LONGEST_HEAD = 16384
_NO_TUNNEL = (b"400", b"403", b"405", b"501")
"""The statuses of proxies that refuse CONNECT to every host."""
_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})([ \r]|$)")
_PAGE = re.compile(rb"\r\n(Content-Length:[ \t]*0*[1-9]|Transfer-Encoding:)", re.IGNORECASE)
"""Headers that no tunnel has: what follows them comes from the proxy."""


class UpstreamProxy(NamedTuple):
    """A proxy between the gate and every host. Requests to it have the whole target."""

    authorization: bytes = b""
    """The value of Proxy-Authorization; empty if it wants none."""


class Upstream(NamedTuple):
    host: str
    port: int
    user: str = ""
    password: str = ""
    direct: Sequence[str] = ()
    """Hosts that are reached without it, as in `no_proxy`."""
    trouble: str = ""
    """Why it cannot be used, if so. Then only the direct hosts can be reached."""

    @property
    def via(self) -> UpstreamProxy:
        """The proxy as requests need to know it."""
        if not self.user:
            return UpstreamProxy()
        return UpstreamProxy(b"Basic " + b64encode(f"{self.user}:{self.password}".encode()))

    def is_used_for(self, host: str, port: int) -> bool:
        """Whether a canonical host is reached through it."""
        return not any(_covers(entry, host, port) for entry in self.direct)


NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
CREDENTIALS = "PINFOLD_PROXY_CREDENTIALS"


def choose(setting: str, environ: Mapping[str, str]) -> Upstream | None:
    """The proxy that the setting means; None for none."""
    if setting == "none":
        return None
    said = setting
    if setting == "environment":
        said = next((environ[name] for name in NAMES if environ.get(name)), "")
    if not said:
        return None
    direct = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    entries = tuple(entry for entry in direct.replace(",", " ").lower().split() if entry)
    return _parse(said, environ.get(CREDENTIALS, ""))._replace(direct=entries)


def _parse(text: str, credentials: str) -> Upstream:
    """Parses a proxy's address. Errors show only its scheme: the rest may be a password."""
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host, port = url.hostname or "", url.port or 80
    except ValueError:
        return Upstream("", 0, trouble="the address of the configured proxy cannot be parsed")
    if url.scheme != "http" or not host:
        kind = url.scheme if url.scheme.isalnum() else "another"
        return Upstream(
            host, port, trouble=f"a proxy with the scheme `{kind}` is not supported; write `http://HOST:PORT`"
        )
    user, _, password = credentials.partition(":")
    if url.username is not None:
        user, password = unquote(url.username), unquote(url.password or "")
    return Upstream(host, port, user, password)


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    name, colon, digits = entry.rpartition(":")
    if colon and ":" not in name and digits.isdecimal():
        return int(digits) == port and _covers(name, host, port)
    if is_address(host):
        return _covers_address(entry, host)
    name = entry.removeprefix("*").removeprefix(".").rstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _covers_address(entry: str, host: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False


class UpstreamError(Exception):
    """The proxy refuses; the text is one line."""


class TunnelRefusedError(UpstreamError):
    """The proxy refuses CONNECT in general."""


def connect_request(upstream: Upstream, host: str, port: int) -> bytes:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if upstream.via.authorization:
        lines.append(f"Proxy-Authorization: {upstream.via.authorization.decode()}")
    return "\r\n".join((*lines, "", "")).encode()


def read_answer(data: bytes) -> bytes | None:
    """What follows the head of a positive answer; None until the head is complete. Raises UpstreamError."""
    head, end, rest = data.partition(_END)
    if not end:
        if len(data) > LONGEST_HEAD:
            raise UpstreamError("the head of its answer is too long")
        return None
    status = _STATUS.match(head)
    if not status:
        raise UpstreamError("its answer is not HTTP")
    if not status[1].startswith(b"2"):
        refused = TunnelRefusedError if status[1] in _NO_TUNNEL else UpstreamError
        # Not in its own words: the proxy may repeat what it was sent.
        raise refused(f"it answered CONNECT with the status {status[1].decode()}")
    if _PAGE.search(head):
        raise UpstreamError("it answered CONNECT with a page")
    return rest


async def open_tunnel(sock: socket.socket, upstream: Upstream, host: str, port: int) -> bytes:
    """Turns a connection to a proxy into one to a host; what the host sent at once."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, connect_request(upstream, host, port))
    data = b""
    while (rest := read_answer(data)) is None:
        piece = await loop.sock_recv(sock, LONGEST_HEAD)
        if not piece:
            raise UpstreamError("it closed the connection")
        data += piece
    return rest
