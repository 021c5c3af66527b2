"""The proxy that a company has between its people and the world: all goes on through it.

By CONNECT, but for plain HTTP: its requests go as they are, with their whole target, since many proxies allow
CONNECT to port 443 alone. A program that knows no proxy has said nothing yet when its connection is made: to
port 80 that is by CONNECT too, and where it is refused, for requests alone.

Facts about the variables: there is no standard. Names in lower case are understood by all, in upper case by
most; what follows `no_proxy` is a list of names, each with all that is below it, addresses and networks, by
some with a port; `*` is everything.
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
"""What proxies say to a CONNECT that they never do, whatever the host."""
_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})([ \r]|$)")
_PAGE = re.compile(rb"\r\n(Content-Length:[ \t]*0*[1-9]|Transfer-Encoding:)", re.IGNORECASE)
"""Headers that no tunnel has: what follows them is the proxy's."""


class UpstreamProxy(NamedTuple):
    """A proxy between us and every host: its requests say the whole target."""

    authorization: bytes = b""
    """What it knows us by; empty if it asks for nothing."""


class Upstream(NamedTuple):
    host: str
    port: int
    user: str = ""
    password: str = ""
    direct: Sequence[str] = ()
    """Hosts that are reached without it, as `no_proxy` has them."""
    trouble: str = ""
    """Why it cannot be used; then no host is reached but the direct ones."""

    @property
    def via(self) -> UpstreamProxy:
        """What its requests have to say."""
        if not self.user:
            return UpstreamProxy()
        return UpstreamProxy(b"Basic " + b64encode(f"{self.user}:{self.password}".encode()))

    def is_used_for(self, host: str, port: int) -> bool:
        """Whether a canonical host is reached by it."""
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
    """Never says more of a text than its scheme: the rest may be a password."""
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host, port = url.hostname or "", url.port or 80
    except ValueError:
        return Upstream("", 0, trouble="the proxy that is to be used has no readable address")
    if url.scheme != "http" or not host:
        kind = url.scheme if url.scheme.isalnum() else "another"
        return Upstream(
            host, port, trouble=f"a proxy of the kind `{kind}` cannot be used; write `http://HOST:PORT`"
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
    """The proxy will not; its text is one line."""


class TunnelRefusedError(UpstreamError):
    """It will not by CONNECT, whoever asks."""


def connect_request(upstream: Upstream, host: str, port: int) -> bytes:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if upstream.via.authorization:
        lines.append(f"Proxy-Authorization: {upstream.via.authorization.decode()}")
    return "\r\n".join((*lines, "", "")).encode()


def read_answer(data: bytes) -> bytes | None:
    """What follows a head that says yes; None as long as it is not whole."""
    head, end, rest = data.partition(_END)
    if not end:
        if len(data) > LONGEST_HEAD:
            raise UpstreamError("its answer has no end")
        return None
    status = _STATUS.match(head)
    if not status:
        raise UpstreamError("it does not answer in HTTP")
    if not status[1].startswith(b"2"):
        refused = TunnelRefusedError if status[1] in _NO_TUNNEL else UpstreamError
        # Not in its own words: it may repeat what it was told.
        raise refused(f"it answers CONNECT with the status {status[1].decode()}")
    if _PAGE.search(head):
        raise UpstreamError("it answers CONNECT with a page")
    return rest


async def open_tunnel(sock: socket.socket, upstream: Upstream, host: str, port: int) -> bytes:
    """Makes a connection to a proxy one to a host; what the host sent at once."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, connect_request(upstream, host, port))
    data = b""
    while (rest := read_answer(data)) is None:
        piece = await loop.sock_recv(sock, LONGEST_HEAD)
        if not piece:
            raise UpstreamError("it hung up")
        data += piece
    return rest
