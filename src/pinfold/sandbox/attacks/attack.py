"""What an attack is, and what it may attack.

An attack that succeeds returns what it got. A denied one lets the kernel's OSError through. One that cannot
be tried here raises `Untried`. Some effects only show outside (a changed file, a message that arrived, a
process that still lives): those are checked outside, in addition to the attack's own report.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

BOUNDARY = "boundary"
"""The claim of attacks on the kernel's boundary itself, which all other claims rest on."""
HIDDEN = "hidden_stays_hidden"
PROTECTED = "protected_stays_protected"
PACKETS = "no_name_no_packet"
OUTLIVES = "nothing_outlives_the_session"
BEHIND = "nothing_left_behind"
APPROVES = "agent_cannot_approve_itself"
LENDS = "no_pen_lends_its_mounts"
DEVICES = "machine_inodes_are_read_only"
MODULES = "no_socket_loads_a_module"
SHARES = "no_command_takes_what_all_share"


class AttackStage(Enum):
    """When the self-test checks from outside whether an attack succeeded."""

    AFTER = "once it has ended"
    TWICE = "once it has ended, and once it was run again by another command"
    TIMEOUT = "once it was ended by its time limit"
    CLOSE = "once its session was closed"
    OTHER = "by a command of another sandbox, after one that prepared it"
    LEFTOVERS = "before, while and after its sandbox exists"
    REPLACED = "by the next command, in the sandbox that replaces the broken one"


class Targets(NamedTuple):
    """The targets of attacks; every field survives JSON."""

    work: str
    """The workspace, writable."""
    home: str
    outside: str
    """A directory beside the workspace."""
    secret: str
    """The text that all hidden files contain."""
    machine: list[str]
    """Files with the secret in the host's own /tmp, /var/tmp and /dev/shm."""
    victim: int
    """A process of the same user."""
    tcp: list[tuple[str, int]]
    """Listeners: on the loopbacks, then on the host's own address if it has one."""
    udp: int
    abstract: str
    terminal: str
    descriptor: int
    """An inheritable descriptor of a file with the secret."""
    namespaces: dict[str, str]
    """The attacker's own namespaces outside, by the names of /proc/self/ns."""
    variable: str
    """An environment variable with the secret."""


class Untried(Exception):  # noqa: N818
    """The attack cannot be tried here; the text says why."""


def prepare(step: Callable[[], object]) -> None:
    """Takes an allowed step that the attack needs. If it fails, that must not count as denying the attack."""
    try:
        step()
    except FileExistsError:
        return
    except OSError as error:
        raise Untried(f"it could not be prepared: {error}") from None


class Attack(NamedTuple):
    name: str
    tries: str
    claim: str
    run: Callable[[Targets], str | None]
    needs_root: bool
    """Without a sandbox only root can do it."""
    sandboxed_only: str
    """Why the attack proves nothing without a sandbox; usually empty."""
    stage: AttackStage


REGISTERED: dict[str, Attack] = {}


def attack(
    tries: str,
    claim: str = BOUNDARY,
    *,
    needs_root: bool = False,
    sandboxed_only: str = "",
    stage: AttackStage = AttackStage.AFTER,
) -> Callable[[Callable[[Targets], str | None]], Callable[[Targets], str | None]]:
    """Registers a function as the attack of its name."""

    def register(run: Callable[[Targets], str | None]) -> Callable[[Targets], str | None]:
        name = run.__name__
        REGISTERED[name] = Attack(name, tries, claim, run, needs_root, sandboxed_only, stage)
        return run

    return register
