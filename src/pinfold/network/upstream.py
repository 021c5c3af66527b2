"""The proxy that a company has between its people and the world: all goes on through it, by CONNECT."""

import asyncio
import re
import socket
from base64 import b64encode
from typing import NamedTuple

LONGEST_HEAD = 16384
_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


class Upstream(NamedTuple):
    host: str
    port: int
    user: str = ""
    password: str = ""


class UpstreamError(Exception):
    """The proxy will not; its text is one line."""


def connect_request(upstream: Upstream, host: str, port: int) -> bytes:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if upstream.user:
        credentials = b64encode(f"{upstream.user}:{upstream.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {credentials}")
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
        line = head.partition(b"\r\n")[0].decode("latin-1")
        raise UpstreamError(f"it says `{line}`")
    return rest


async def pass_through(sock: socket.socket, upstream: Upstream, host: str, port: int) -> bytes:
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
