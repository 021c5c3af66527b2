"""Decisions about hosts as the gate uses them: their values, the functions that make them, and a cache.

The gate is handed these functions; the session makes them from `policy` and its approvers.

INVARIANT: the cache holds only what the rules allow, for one pen, host and port. A cached decision is used
while every file it was made from is as it was *before* the session was asked, and the session has not said
otherwise. In doubt the session is asked again; it is asked about a denied host every time.
"""

import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from pinfold.model.decision import Verdict


class HostDecision(NamedTuple):
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


Decide = Callable[[str, int | None, str], Awaitable[HostDecision]]
"""For a canonical host, a port and who asks (a tag). Without a port: whether there is any port at all for
which the answer could be other than no. An address is a host too: whatever a name leads to is decided about
as well."""

Known = Callable[[str, int, str], HostDecision | None]
"""The same at once, if it is known to be yes; None if it has to be asked for."""

Ask = Callable[[str, int, str, HostDecision], Awaitable[HostDecision]]
"""Asks a person about host, port, for the command with this tag; the ruling is what `decide` said. ALLOW or
DENY comes back, as late as it likes."""


def with_remedy(message: str, remedy: str) -> str:
    return f"{message}; {remedy}" if remedy else message


class ConnectionOutcome(NamedTuple):
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


Record = Callable[[ConnectionOutcome], None]


MOST_CACHED = 4096

About: TypeAlias = tuple[str, str, int | None]
"""A pen, a host, a port."""
Marks: TypeAlias = tuple[tuple[int, ...], ...]


class DecisionCache:
    def __init__(self) -> None:
        self._files: tuple[str, ...] = ()
        self._marks: Marks = ()
        self._rulings: dict[About, HostDecision] = {}
        self._times_forgotten = 0

    def now(self) -> tuple[int, Marks]:
        """To be told to `keep` with a ruling: what was so before it was asked for."""
        return self._times_forgotten, _marks(self._files)

    def keep(self, about: About, ruling: HostDecision, when: tuple[int, Marks]) -> None:
        if ruling.verdict is not Verdict.ALLOW or not ruling.files:
            return
        times, marks = when
        if ruling.files != self._files:
            self._files = ruling.files  # from the next question on we know what to look at
            self._rulings.clear()
        elif times == self._times_forgotten:
            if marks != self._marks or len(self._rulings) >= MOST_CACHED:
                self._rulings.clear()
            self._marks = marks
            self._rulings[about] = ruling

    def find(self, about: About) -> HostDecision | None:
        ruling = self._rulings.get(about)
        if ruling and _marks(self._files) != self._marks:
            self._rulings.clear()
            return None
        return ruling

    def forget(self) -> None:
        self._times_forgotten += 1
        self._rulings.clear()


def _marks(files: tuple[str, ...]) -> Marks:
    return tuple(map(_mark, files))


def _mark(path: str) -> tuple[int, ...]:
    """What changes when a file does. The change time is among it: unlike the others it cannot be set back."""
    try:
        facts = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev, facts.st_mode
