"""What a warden is put in charge of: one pen, as its plan has it, and the ways that lead from it."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.init.session_root import BOUND, HOST
from pinfold.sandbox.linux.protocol.operations import (
    Cover,
    Landlock,
    LandlockRule,
    NoteReads,
    Operations,
    Seccomp,
    of_kind,
)
from pinfold.sandbox.linux.protocol.rename_lock import COMMON, LOCKED
from pinfold.sandbox.linux.warden.paths import Grounds
from pinfold.sandbox.linux.warden.peers import Neighbours

DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Charge:
    def __init__(
        self,
        operations: Operations,
        rules: tuple[NameRule, ...],
        host: socket.socket,
        gate: socket.socket | None,
        lent: dict[int, str],
        queue: int,
        neighbours: Neighbours,
    ) -> None:
        """Preconditions: the mounts are still the session's."""
        self.operations = operations
        self.rules = rules
        self.host = host
        self.gate = gate
        """The way out, if the pen's connections may leave."""
        self.lent = lent
        """Ports of the machine's loopback that it leads to."""
        self.queue = queue
        """What tells of what the host changes (`standing`)."""
        self.neighbours = neighbours
        self.proc = os.open(f"{HOST}/proc", DIRECTORY)
        """The host's /proc, where callers are known."""
        self.bound = os.open(BOUND, DIRECTORY)
        """Where the session's sockets are bound."""
        self.moving = _common()
        """What wardens lock to keep each other still (`moving`)."""
        self.roots = dict(_held(Grounds.of(operations).roots))
        """Writable directories, as the machine has them: what tells whether they were moved (`spots`)."""

    @property
    def descriptors(self) -> set[int]:
        """What a warden of it needs."""
        ways = (self.host, self.gate) if self.gate else (self.host,)
        ours = (self.proc, self.bound, self.moving, self.queue, *self.roots.values())
        return {*ours, *(way.fileno() for way in ways), *self.neighbours.descriptors}

    @property
    def granted(self) -> tuple[LandlockRule, ...]:
        """What the plan grants below which path."""
        return tuple(rule for step in of_kind(self.operations, Landlock) for rule in step.rules)

    @property
    def has_warden(self) -> bool:
        return any(step.watched for step in of_kind(self.operations, Seccomp))

    @property
    def asks(self) -> bool:
        """Whether a person can be asked for what the plan denies."""
        return any(step.asks for step in of_kind(self.operations, Seccomp))

    @property
    def notes_reads(self) -> bool:
        return bool(of_kind(self.operations, NoteReads))

    @property
    def sockets(self) -> tuple[str, ...]:
        """The machine's sockets that the plan opens."""
        return tuple(path for step in of_kind(self.operations, Seccomp) for path in step.sockets)

    @property
    def agents(self) -> tuple[str, ...]:
        """Those of them that are an ssh agent's, whatever they are called."""
        return tuple(path for step in of_kind(self.operations, Seccomp) for path in step.agents)

    @property
    def covered(self) -> tuple[str, ...]:
        return tuple(step.path for step in of_kind(self.operations, Cover))


def _held(roots: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for root in roots:
        # A file has no names in it; and if a root is gone, the pen fails by that.
        with suppress(OSError):
            yield root, os.open(f"{HOST}{root}", DIRECTORY)


def _common() -> int:
    """A directory that wardens of all sessions have, and no command: over the machine's /run pens have an
    empty one, unless it is a link (`places`)."""
    try:
        return os.open(f"{HOST}{COMMON}", LOCKED)
    except OSError:
        return os.open(BOUND, LOCKED)
