"""Decisions about hosts as the gate uses them: their values, the functions that make them, and a cache.

The gate is handed these functions; the session makes them from `policy` and its approvers.

INVARIANT: the cache holds only what the rules allow, for one pen, host and port. A cached decision is used
while every file it was made from is as it was *before* the session was asked, and the session has not said
otherwise. In doubt the session is asked again; it is asked about a denied host every time.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pinfold.model.decision import Verdict

if TYPE_CHECKING:
    from asyncio import Future


class HostDecision(NamedTuple):
    verdict: Verdict
    message: str = ""
    """Why, in one line."""
    rule: str = ""
    """The entry of `network.allow` or `network.deny` that names this host; empty if none does and a
    setting or a default decided."""
    answered: str = ""
    """The approver that answered no, as the session names it; empty if none did."""
    unnamed_tls: bool = False
    """TLS that hides its server name, or has none, may pass to this host."""
    files: tuple[str, ...] = ()
    """The files it was made from. While they are as they were when it was asked for, it holds for the whole
    pen. Without any it holds once."""
    remedy: str = ""
    """What would change a no; empty if nothing would."""
    asked_at: str = ""
    """Where the question was shown, as a value of `AskedAt`."""


Decide = Callable[[str, int | None, str], Awaitable[HostDecision]]
"""Decides about a canonical host and a port, for the command with this tag. Without a port: whether any port
could get an answer other than no. An address is a host too: each address of a name gets a decision."""

Known = Callable[[str, int, str], HostDecision | None]
"""Returns a cached decision that allows; None if `Decide` has to be called."""

OpenHost = Callable[[str, int, str], "Awaitable[tuple[HostDecision, Future[HostDecision] | None]]"]
"""Decides about a host and port, for the command with this tag. If the decision is ASK, a person is asked:
the second value gets the answer after any time, and withdraws the question if it is cancelled."""


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
    """As in the decision."""
    asked_at: str = ""
    remedy: str = ""
    is_left: bool = False
    """Whether the program went away before it learned the result."""
    is_late: bool = False
    """Whether the program's connect had succeeded by then."""
    why: str = ""
    """The kind of a refusal, as a value of `ViolationCode`."""
    tag: str = ""
    """The command it belongs to, as its pen's warden says; empty for what comes from outside."""
    address: str = ""
    """The address that was dialled; empty if none was."""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0

    @property
    def told(self) -> str:
        """The message and the remedy on one line."""
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
        """The state before the session is asked, to be passed to `keep` with its decision."""
        return self._times_forgotten, _marks(self._files)

    def keep(self, about: About, ruling: HostDecision, when: tuple[int, Marks]) -> None:
        if ruling.verdict is not Verdict.ALLOW or not ruling.files:
            return
        times, marks = when
        if ruling.files != self._files:
            self._files = ruling.files  # from the next decision on it is known which files count
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
    """What changes when a file does. Unlike the other times, the change time cannot be set back."""
    try:
        facts = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev, facts.st_mode
