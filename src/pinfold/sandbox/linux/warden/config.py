"""What a warden needs to know about its pen: the plan, its sockets to host and gate, shared directories."""

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
from pinfold.sandbox.linux.protocol.pen_registry import marks_above
from pinfold.sandbox.linux.protocol.rename_lock import COMMON, LOCKED
from pinfold.sandbox.linux.warden.paths import PlanPaths
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens

DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class WardenConfig:
    def __init__(
        self,
        operations: Operations,
        rules: tuple[NameRule, ...],
        host: socket.socket,
        gate: socket.socket | None,
        lent_ports: dict[int, str],
        queue: int,
        peers: PeerWardens,
    ) -> None:
        """Preconditions: this process still has the session's mounts, not yet the pen's."""
        self.operations = operations
        self.rules = rules
        self.host = host
        self.gate = gate
        """The socket to the gate, if connections may leave the pen."""
        self.lent_ports = lent_ports
        """Ports of the host's loopback that the pen may connect to, and the host name of each."""
        self.queue = queue
        """An inotify queue for changes that the host makes (`mount_guard`)."""
        self.peers = peers
        self.proc = os.open(f"{HOST}/proc", DIRECTORY)
        """The host's /proc, where callers have the numbers that the kernel tells us."""
        self.bound = os.open(BOUND, DIRECTORY)
        """The directory that all wardens of the session share (`bound_sockets`)."""
        self.lock_directory = _common()
        """The directory whose lock keeps other wardens from renaming (`rename_lock`)."""
        self.roots = dict(_held(PlanPaths.of(operations).roots))
        """Writable directories, opened on the host's mounts: they tell whether one was moved (`paths`)."""
        self.above = {root: marks_above(f"{HOST}{root}", HOST) for root in self.roots}
        """Marks of the directories above each of these, on the host's mounts (`peer_wardens`)."""

    @property
    def descriptors(self) -> set[int]:
        """The descriptors that a warden must keep open."""
        connections = (self.host, self.gate) if self.gate else (self.host,)
        ours = (self.proc, self.bound, self.lock_directory, self.queue, *self.roots.values())
        return {*ours, *(connection.fileno() for connection in connections), *self.peers.descriptors}

    @property
    def granted(self) -> tuple[LandlockRule, ...]:
        """The rights that the plan grants below each path."""
        return tuple(rule for step in of_kind(self.operations, Landlock) for rule in step.rules)

    @property
    def has_warden(self) -> bool:
        return any(step.watched for step in of_kind(self.operations, Seccomp))

    @property
    def asks(self) -> bool:
        """Whether a person can be asked about what the plan denies."""
        return any(step.asks for step in of_kind(self.operations, Seccomp))

    @property
    def notes_reads(self) -> bool:
        return bool(of_kind(self.operations, NoteReads))

    @property
    def sockets(self) -> tuple[str, ...]:
        """The sockets of the host that the plan grants."""
        return tuple(path for step in of_kind(self.operations, Seccomp) for path in step.sockets)

    @property
    def agents(self) -> tuple[str, ...]:
        """Those granted sockets that are known to belong to an ssh agent, under any name."""
        return tuple(path for step in of_kind(self.operations, Seccomp) for path in step.agents)

    @property
    def covered(self) -> tuple[str, ...]:
        return tuple(step.path for step in of_kind(self.operations, Cover))


def _held(roots: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for root in roots:
        # A file contains no names. If a root is missing, building the pen fails.
        with suppress(OSError):
            yield root, os.open(f"{HOST}{root}", DIRECTORY)


def _common() -> int:
    """A directory that the wardens of all sessions share and no command sees. Pens have an empty directory
    over the host's /run, unless /run is a symbolic link (`host.paths`)."""
    try:
        return os.open(f"{HOST}{COMMON}", LOCKED)
    except OSError:
        return os.open(BOUND, LOCKED)
