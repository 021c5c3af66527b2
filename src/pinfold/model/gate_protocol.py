"""The messages between a pen's warden and the gate about a connection. Pure: values to bytes and back.

Each message is one datagram of a unix socket that only the two of them hold.

| from | message | carries | answer |
|---|---|---|---|
| warden | OPEN: a number, the command's tag, an address and a port | | ANSWER |
| warden | JOIN: that number | the program's side of the connection | |
| warden | DROP: that number, whose caller does not wait any more | | |
| warden | PROXY: the command's tag | a connection to the proxy | |
| warden | NAMES: the command's tag, and the port of its socket for DNS queries | | |
| gate | ANSWER: that number, 0 or an errno; host, rule, code, remedy, approver, why | | JOIN or DROP, if 0 |
"""

import struct
from typing import NamedTuple

OPEN, JOIN, DROP, PROXY, NAMES = range(1, 6)
GATE, PROXY_PORT = "198.18.0.1", 3128
"""Where a pen's programs find their proxy. The range is reserved for benchmarks between devices (RFC
2544)."""
OWN = "198.18.0."
"""The prefix of the session's own addresses; those above it are placeholders for host names."""
LONGEST = 4096
LONGEST_NAME = 500
"""Characters of the name of the approver that said no."""
LONGEST_REMEDY = 300
DNS = 53

_HEAD = struct.Struct("=BQQH")
_ANSWER = struct.Struct("=Qi")


class GateRequest(NamedTuple):
    """What a warden sends."""

    kind: int
    number: int = 0
    tag: int = 0
    port: int = 0
    host: str = ""

    def encoded(self) -> bytes:
        return _HEAD.pack(self.kind, self.number, self.tag, self.port) + self.host.encode()


class GateAnswer(NamedTuple):
    """What the gate sends."""

    number: int
    errno: int = 0
    host: str = ""
    """The host name of the placeholder address."""
    rule: str = ""
    answered: str = ""
    """The approver that said no, if a person was asked."""
    message: str = ""
    code: str = ""
    """A `ViolationCode`."""
    remedy: str = ""
    asked_at: str = ""
    """An `AskedAt`."""

    def encoded(self) -> bytes:
        """The message is last, since only it may be cut; an approver's name may be anything."""
        answered = self.answered[:LONGEST_NAME].replace("\0", "")
        remedy = self.remedy[:LONGEST_REMEDY].replace("\0", "")
        parts = (self.host, self.rule, self.code, remedy, self.asked_at, answered, self.message)
        text = "\0".join(parts).encode("utf-8", "replace")
        return (_ANSWER.pack(self.number, self.errno) + text)[:LONGEST]


def parse_request(data: bytes) -> GateRequest:
    """Preconditions: `GateRequest.encoded` wrote it."""
    kind, number, tag, port = _HEAD.unpack_from(data)
    return GateRequest(kind, number, tag, port, data[_HEAD.size :].decode())


def parse_answer(data: bytes) -> GateAnswer:
    """Preconditions: `GateAnswer.encoded` wrote it."""
    number, errno = _ANSWER.unpack_from(data)
    text = data[_ANSWER.size :].decode("utf-8", "replace")
    host, rule, code, remedy, asked_at, answered, message = text.split("\0", 6)
    return GateAnswer(number, errno, host, rule, answered, message, code, remedy, asked_at)
