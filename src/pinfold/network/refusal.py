"""Why a connection is not made, and how each kind of client is told so."""

from enum import Enum
from errno import ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT
from typing import NamedTuple

from pinfold.model.codes import ViolationCode
from pinfold.network.host_decision import with_remedy


class Malformed(ValueError):  # noqa: N818  (it names the bytes, which are the client's)
    """Bytes that are not what they should be. What every parser of this package raises, and nothing else."""


class RefusalKind(Enum):
    """What stood in the way; for each an HTTP status, a SOCKS 5 reply (RFC 1928, 6) and an errno."""

    DENIED = (ViolationCode.DENIED, "403 Forbidden", 0x02, ECONNREFUSED)
    MALFORMED = (ViolationCode.MALFORMED, "400 Bad Request", 0x01, ECONNREFUSED)
    MISMATCHED = (ViolationCode.MISMATCHED, "421 Misdirected Request", 0x02, ECONNREFUSED)
    BUSY = (ViolationCode.BUSY, "503 Service Unavailable", 0x01, ECONNREFUSED)
    UNKNOWN_NAME = (ViolationCode.UNKNOWN_NAME, "502 Bad Gateway", 0x04, EHOSTUNREACH)
    UNREACHABLE = (ViolationCode.UNREACHABLE, "502 Bad Gateway", 0x04, EHOSTUNREACH)
    REFUSED_THERE = (ViolationCode.REFUSED_THERE, "502 Bad Gateway", 0x05, ECONNREFUSED)
    REPEATED = (ViolationCode.REPEATED, "502 Bad Gateway", 0x01, EHOSTUNREACH)
    """A proxy sends its credentials back."""
    LATE = (ViolationCode.LATE, "504 Gateway Timeout", 0x04, ETIMEDOUT)

    def __init__(self, code: ViolationCode, status: str, socks_reply: int, errno: int) -> None:
        self.code, self.status, self.socks_reply, self.errno = code, status, socks_reply, errno


class Refusal(NamedTuple):
    """An answer, never an exception."""

    why: RefusalKind
    message: str
    """One clear line: what, and why."""
    rule: str = ""
    """The entry of `network.deny` that said so, if one did."""
    answered: str = ""
    """Who said no, if somebody was asked."""
    remedy: str = ""
    """What to do about it; empty if nothing helps."""
    asked_at: str = ""
    """Where it was asked about, as `AskedAt` has it."""

    @property
    def told(self) -> str:
        """All of it on one line, for the program and its user."""
        return with_remedy(self.message, self.remedy)
