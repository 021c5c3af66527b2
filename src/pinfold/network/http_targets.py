"""What a request is meant for, as its text says it, and the answers that the gate gives by itself. Pure."""

import re
from typing import NamedTuple

from pinfold.model.hosts import canonical
from pinfold.network.refusal import Malformed, Why

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?")


class Target(NamedTuple):
    host: str
    """Canonical."""
    port: int

    @property
    def authority(self) -> str:
        """As a request for it has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 80 else f"{host}:{self.port}"


class Via(NamedTuple):
    """A proxy between us and every host: its requests say the whole target."""

    authorization: bytes = b""
    """What it knows us by; empty if it asks for nothing."""


def parse_authority(text: str, default: int | None) -> Target:
    """`host:port`, or `host` where a port is understood."""
    found = _AUTHORITY.fullmatch(text)
    if not found:
        raise Malformed("the target is no `host:port`")
    port = int(found[2]) if found[2] else default
    if port is None or not 0 < port < 65536:
        raise Malformed("the target has no port from 1 to 65535")
    try:
        return Target(canonical(found[1]), port)
    except ValueError as error:
        raise Malformed(str(error)) from None


def split_target(text: str) -> tuple[str, str]:
    """Authority and path of an absolute `http:` target."""
    scheme, colon, rest = text.partition("://")
    if not colon or scheme.lower() != "http":
        raise Malformed("a request to a proxy has a target with `http://`, or is a CONNECT")
    authority, slash, path = rest.partition("/")
    if not slash:
        authority, mark, path = rest.partition("?")
        return authority, f"/?{path}" if mark else "/"
    if "?" in authority or "#" in rest:
        raise Malformed("the target is no `http://host/path`")
    return authority, f"/{path}"


def refusal_page(why: Why, message: str) -> bytes:
    """A whole answer that says why, for people who read bodies and for those who read status lines."""
    body = f"pinfold: {message}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {why.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nX-Proxy-Error: pinfold-{why.code}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
