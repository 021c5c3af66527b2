"""What the rules say about a host, and the shape of the functions that say it.

The gate is handed these; the session makes them of `policy` and its approvers.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pinfold.model.decision import Verdict


class Ruling(NamedTuple):
    verdict: Verdict
    message: str = ""
    """Why, in one line."""
    rule: str = ""
    """The entry of `network.allow` or `network.deny` that names this host; empty if none does and a
    setting or a default decided."""
    answered: str = ""
    """Who said no to it, as the session tells it; empty if nobody did."""
    unnamed_tls: bool = False
    """TLS that hides its server name, or has none, may pass to this host."""
    files: tuple[str, ...] = ()
    """What it was made by: as long as these files are as they were when it was asked for, it stands for the
    whole pen. Without any it is for this once."""
    remedy: str = ""
    """What would change a no; empty if nothing does."""
    asked_at: str = ""
    """Where it was asked about, as `AskedAt` has it."""


Decide = Callable[[str, int | None, str], Awaitable[Ruling]]
"""For a canonical host, a port and who asks (a tag). Without a port: whether there is any port at all for
which the answer could be other than no. An address is a host too: whatever a name leads to is decided about
as well."""

Known = Callable[[str, int, str], Ruling | None]
"""The same at once, if it is known to be yes; None if it has to be asked for."""

Ask = Callable[[str, int, str, Ruling], Awaitable[Ruling]]
"""Asks a person about host, port, for the command with this tag; the ruling is what `decide` said. ALLOW or
DENY comes back, as late as it likes."""


def with_remedy(message: str, remedy: str) -> str:
    return f"{message}; {remedy}" if remedy else message


class Outcome(NamedTuple):
    """How one connection ended; one journal line."""

    face: str
    """`http`, `connect`, `socks`, `carried`, `resolver`, `published`."""
    host: str
    port: int
    verdict: Verdict
    message: str
    rule: str = ""
    answered: str = ""
    """As the ruling has it."""
    asked_at: str = ""
    remedy: str = ""
    is_left: bool = False
    """Whether the program went away before it heard of that."""
    is_late: bool = False
    """Whether its connect was done by then."""
    why: str = ""
    """The kind of a refusal, as `ViolationCode` has it."""
    tag: str = ""
    """Which command it belongs to, as its pen's warden says; empty of what comes from outside."""
    address: str = ""
    """Where it was dialled; empty if it never was."""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0

    @property
    def told(self) -> str:
        """Why, and what would change it, on one line."""
        return with_remedy(self.message, self.remedy)


Record = Callable[[Outcome], None]
