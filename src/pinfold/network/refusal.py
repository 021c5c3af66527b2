"""Why a connection is not made, and how each kind of client is told so."""

from enum import Enum
from errno import ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT
from typing import NamedTuple


class Malformed(ValueError):  # noqa: N818  (it names the bytes, which are the client's)
    """Bytes that are not what they should be. What every parser of this package raises, and nothing else."""


class Why(Enum):
    """What stood in the way; for each an HTTP status, a SOCKS 5 reply (RFC 1928, 6) and an errno."""

    DENIED = ("denied", "403 Forbidden", 0x02, ECONNREFUSED)
    MALFORMED = ("malformed", "400 Bad Request", 0x01, ECONNREFUSED)
    MISMATCHED = ("mismatched", "421 Misdirected Request", 0x02, ECONNREFUSED)
    BUSY = ("busy", "503 Service Unavailable", 0x01, ECONNREFUSED)
    UNKNOWN_NAME = ("unknown-name", "502 Bad Gateway", 0x04, EHOSTUNREACH)
    UNREACHABLE = ("unreachable", "502 Bad Gateway", 0x04, EHOSTUNREACH)
    REFUSED_THERE = ("refused-there", "502 Bad Gateway", 0x05, ECONNREFUSED)
    REPEATED = ("repeated-credentials", "502 Bad Gateway", 0x01, EHOSTUNREACH)
    """A proxy sends its credentials back."""
    LATE = ("late", "504 Gateway Timeout", 0x04, ETIMEDOUT)

    def __init__(self, word: str, status: str, socks_reply: int, errno: int) -> None:
        self.word, self.status, self.socks_reply, self.errno = word, status, socks_reply, errno


class Refusal(NamedTuple):
    """An answer, never an exception."""

    why: Why
    message: str
    """One clear line: what, why, and what to do about it."""
    rule: str = ""
    """The entry of `network.deny` that said so, if one did."""
    answered: str = ""
    """Who said no, if somebody was asked."""
