"""Why the gate makes no connection, and how each kind of client learns of it."""

from enum import Enum
from errno import ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT
from typing import NamedTuple

from pinfold.model.codes import ViolationCode
from pinfold.network.host_decision import with_remedy


class Malformed(ValueError):  # noqa: N818  (it names the bytes)
    """Bytes that a parser of this package rejects. The parsers raise nothing else."""


class RefusalKind(Enum):
    """Kinds of refusal, each with an HTTP status, a SOCKS 5 reply (RFC 1928, 6) and an errno."""

    DENIED = (ViolationCode.DENIED, "403 Forbidden", 0x02, ECONNREFUSED)
    MALFORMED = (ViolationCode.MALFORMED, "400 Bad Request", 0x01, ECONNREFUSED)
    MISMATCHED = (ViolationCode.MISMATCHED, "421 Misdirected Request", 0x02, ECONNREFUSED)
    BUSY = (ViolationCode.BUSY, "503 Service Unavailable", 0x01, ECONNREFUSED)
    UNKNOWN_NAME = (ViolationCode.UNKNOWN_NAME, "502 Bad Gateway", 0x04, EHOSTUNREACH)
    UNREACHABLE = (ViolationCode.UNREACHABLE, "502 Bad Gateway", 0x04, EHOSTUNREACH)
    REFUSED_THERE = (ViolationCode.REFUSED_THERE, "502 Bad Gateway", 0x05, ECONNREFUSED)
    REPEATED = (ViolationCode.REPEATED, "502 Bad Gateway", 0x01, EHOSTUNREACH)
    """A proxy sends its own credentials back in a response."""
    LATE = (ViolationCode.LATE, "504 Gateway Timeout", 0x04, ETIMEDOUT)

    def __init__(self, code: ViolationCode, status: str, socks_reply: int, errno: int) -> None:
        self.code, self.status, self.socks_reply, self.errno = code, status, socks_reply, errno


class Refusal(NamedTuple):
    """Why a connection is not made. It is returned, never raised."""

    why: RefusalKind
    message: str
    """One line: what, and why."""
    rule: str = ""
    """The entry of `network.deny` that matched; empty if none did."""
    answered: str = ""
    """The approver that answered no; empty if none was asked."""
    remedy: str = ""
    """What the user can do about it; empty if nothing helps."""
    asked_at: str = ""
    """Where the question was shown, as a value of `AskedAt`."""

    @property
    def told(self) -> str:
        """The message and the remedy on one line."""
        return with_remedy(self.message, self.remedy)
