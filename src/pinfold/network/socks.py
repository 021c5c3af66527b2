"""SOCKS 5 (RFC 1928, 1929) and SOCKS 4 and 4a, as far as a client that wants to connect needs it. Sans-io.

Facts:
- The first byte is the version. A SOCKS 5 client lists methods, gets one, may send a name and a password,
  and then sends its request. A SOCKS 4 client sends all at once.
- SOCKS 4a: an address 0.0.0.x, x not 0, means that a name follows the user id.
- A client may send on before it is answered; what follows its request is `rest`.

What this means for the gate: the warden has already named the command that a connection belongs to. So any
user name and password will do, and only CONNECT is supported. Names stay as they were written, for
`model.hosts.canonical`.
"""

import socket
from typing import NamedTuple

from pinfold.network.refusal import Malformed, RefusalKind

LONGEST = 1024
"""Bytes of a whole greeting: 1 + 1 + 255, 1 + 256 + 256, 4 + 256 + 2."""
VERSION_4, VERSION_5 = 4, 5
_CONNECT = 1
_OPEN, _BY_NAME, _NO_METHOD = 0, 2, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_COMMAND_UNKNOWN, _KIND_UNKNOWN = 7, 8


class SocksReply(NamedTuple):
    """Bytes for the client."""

    data: bytes


class SocksRequest(NamedTuple):
    """The client's request; it waits for `granted` or `refused`."""

    host: str
    port: int


class SocksRejection(NamedTuple):
    """Bytes that tell the client that its request is not supported."""

    data: bytes
    message: str


Event = SocksReply | SocksRequest | SocksRejection


class SocksGreeting:
    """Takes bytes as they come, until the client has sent its request."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._step = self._first
        self._is_over = False
        self.version = VERSION_5

    def feed(self, data: bytes) -> list[Event]:
        """Raises `Malformed` if the bytes are not SOCKS."""
        self._data += data
        events: list[Event] = []
        while not self._is_over and (event := self._step()) is not None:
            events.append(event)
        if not self._is_over and len(self._data) > LONGEST:
            raise Malformed("the SOCKS greeting is too long")
        return events

    @property
    def rest(self) -> bytes:
        """What the client sent after its request."""
        return bytes(self._data)

    def granted(self) -> bytes:
        return self._answer(0)

    def refused(self, why: RefusalKind) -> bytes:
        return self._answer(why.socks_reply)

    def _answer(self, code: int) -> bytes:
        if self.version == VERSION_4:
            return bytes((0, 90 if code == 0 else 91)) + bytes(6)
        return bytes((5, code, 0, _IPV4)) + bytes(6)

    def _take(self, count: int) -> bytes:
        piece = bytes(self._data[:count])
        del self._data[:count]
        return piece

    def _first(self) -> Event | None:
        if not self._data:
            return None
        self.version = self._data[0]
        if self.version == VERSION_4:
            return self._request_4()
        if self.version != VERSION_5:
            raise Malformed("not a SOCKS request")
        if len(self._data) < 2 or len(self._data) < 2 + self._data[1]:
            return None
        methods = self._take(2 + self._data[1])[2:]
        if _BY_NAME in methods:
            self._step = self._credentials
            return SocksReply(bytes((5, _BY_NAME)))
        if _OPEN in methods:
            self._step = self._request_5
            return SocksReply(bytes((5, _OPEN)))
        return self._end(bytes((5, _NO_METHOD)), "the SOCKS client offers no supported authentication method")

    def _credentials(self) -> Event | None:
        data = self._data
        if data and data[0] != 1:
            raise Malformed("the SOCKS credentials have an unknown version")
        if len(data) < 2 or len(data) < 3 + data[1] or len(data) < 3 + data[1] + data[2 + data[1]]:
            return None
        length = data[1]
        self._take(3 + length + data[2 + length])
        self._step = self._request_5
        return SocksReply(b"\1\0")

    def _request_5(self) -> Event | None:
        data = self._data
        if len(data) < 5:
            return None
        version, command, _, kind, first = data[:5]
        if version != VERSION_5:
            raise Malformed("the SOCKS request and its greeting have different versions")
        if command != _CONNECT:
            return self._end(self._answer(_COMMAND_UNKNOWN), "only the SOCKS command CONNECT is supported")
        if kind not in (_IPV4, _NAME, _IPV6):
            return self._end(self._answer(_KIND_UNKNOWN), "the SOCKS request has an unknown address type")
        length = {_IPV4: 4, _NAME: 1 + first, _IPV6: 16}[kind]
        if len(data) < 4 + length + 2:
            return None
        address = self._take(4 + length)[4:]
        port = int.from_bytes(self._take(2), "big")
        if kind == _NAME:
            return self._ask(address[1:].decode("latin-1"), port)
        family = socket.AF_INET if kind == _IPV4 else socket.AF_INET6
        return self._ask(socket.inet_ntop(family, address), port)

    def _request_4(self) -> Event | None:
        user_end = self._data.find(0, 8)
        if len(self._data) < 9 or user_end < 0:
            return None
        address = bytes(self._data[4:8])
        end, host = user_end, socket.inet_ntop(socket.AF_INET, address)
        if address[:3] == bytes(3) and address[3]:
            end = self._data.find(0, user_end + 1)
            if end < 0:
                return None
            host = self._data[user_end + 1 : end].decode("latin-1")
        command, port = self._data[1], int.from_bytes(self._data[2:4], "big")
        self._take(end + 1)
        if command != _CONNECT:
            return self._end(self._answer(_COMMAND_UNKNOWN), "only the SOCKS command CONNECT is supported")
        return self._ask(host, port)

    def _ask(self, host: str, port: int) -> SocksRequest:
        self._is_over = True
        return SocksRequest(host, port)

    def _end(self, data: bytes, message: str) -> SocksRejection:
        self._is_over = True
        return SocksRejection(data, message)
