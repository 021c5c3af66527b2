"""What a pen's warden and the gate say to each other about a connection. Pure: values to bytes and back.

Each message is one datagram of a unix socket that only the two of them hold.

| from | message | carries | answer |
|---|---|---|---|
| warden | OPEN: a number, the command's tag, an address and a port | | ANSWER |
| warden | JOIN: that number | the program's side of the connection | |
| warden | DROP: that number, nobody waits for it any more | | |
| warden | PROXY: the command's tag | a connection to the proxy | |
| warden | NAMES: the command's tag, and the port of a socket of its that is to ask for names | | |
| gate | ANSWER: that number, 0 or an errno; host, rule, code, remedy, who, why | | JOIN or DROP, if 0 |
"""

import struct
from typing import NamedTuple

OPEN, JOIN, DROP, PROXY, NAMES = range(1, 6)
GATE, PROXY_PORT = "198.18.0.1", 3128
"""Where a pen's programs find their proxy. The range is for benchmarks between devices (RFC 2544)."""
OWN = "198.18.0."
"""The start of the addresses that are the session's own; above them are those that stand for names."""
LONGEST = 4096
LONGEST_NAME = 500
"""Characters of who said no."""
LONGEST_REMEDY = 300
DNS = 53

_WISH = struct.Struct("=BQQH")
_ANSWER = struct.Struct("=Qi")


class Wish(NamedTuple):
    """What a warden says."""

    kind: int
    number: int = 0
    tag: int = 0
    port: int = 0
    host: str = ""

    def encoded(self) -> bytes:
        return _WISH.pack(self.kind, self.number, self.tag, self.port) + self.host.encode()


class Answer(NamedTuple):
    """What the gate says."""

    number: int
    errno: int = 0
    host: str = ""
    """What the address stands for."""
    rule: str = ""
    answered: str = ""
    """Who said no, if somebody was asked."""
    message: str = ""
    code: str = ""
    """As `ViolationCode` has it."""
    remedy: str = ""
    asked_at: str = ""
    """As `AskedAt` has it."""

    def encoded(self) -> bytes:
        """The message is last, since it alone may be cut; who answers may call themselves anything."""
        answered = self.answered[:LONGEST_NAME].replace("\0", "")
        remedy = self.remedy[:LONGEST_REMEDY].replace("\0", "")
        parts = (self.host, self.rule, self.code, remedy, self.asked_at, answered, self.message)
        text = "\0".join(parts).encode("utf-8", "replace")
        return (_ANSWER.pack(self.number, self.errno) + text)[:LONGEST]


def parse_wish(data: bytes) -> Wish:
    """Preconditions: `Wish.encoded` wrote it."""
    kind, number, tag, port = _WISH.unpack_from(data)
    return Wish(kind, number, tag, port, data[_WISH.size :].decode())


def parse_answer(data: bytes) -> Answer:
    """Preconditions: `Answer.encoded` wrote it."""
    number, errno = _ANSWER.unpack_from(data)
    text = data[_ANSWER.size :].decode("utf-8", "replace")
    host, rule, code, remedy, asked_at, answered, message = text.split("\0", 6)
    return Answer(number, errno, host, rule, answered, message, code, remedy, asked_at)
