"""What an attack is, and what it is let loose on.

An attack that succeeds returns what it got; one that is refused lets the kernel's OSError out; one that
cannot be tried here raises `Untried`. What only the outside can see (a file that changed, a message that
arrived, a process that lives on) is judged there, whatever the attack says.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

BOUNDARY = "boundary"
"""Stands for the claim of an attack on what every claim rests on: the kernel's boundary itself."""
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


class Stage(Enum):
    """When the outside looks whether an attack got through."""

    AFTER = "once it has ended"
    TWICE = "once it has ended, and once it was run again by another command"
    TIMEOUT = "once it was ended by its time limit"
    CLOSE = "once its session was closed"
    OTHER = "by a command of another sandbox, after one that prepared it"
    LEFTOVERS = "before, while and after its pen stands"
    REPLACED = "by the next command, in the pen that replaces the one it broke"


class World(NamedTuple):
    """What there is to attack; every field survives JSON."""

    work: str
    """The workspace, writable."""
    home: str
    outside: str
    """A directory beside the workspace."""
    secret: str
    """The text that all hidden things contain."""
    machine: list[str]
    """Files with the secret in the machine's own /tmp, /var/tmp and /dev/shm."""
    victim: int
    """A process of the same user."""
    tcp: list[tuple[str, int]]
    """Listeners: on the loopbacks, then on the machine's own address if it has one."""
    udp: int
    abstract: str
    terminal: str
    descriptor: int
    """An inheritable descriptor of a file with the secret."""
    namespaces: dict[str, str]
    """Those of the process that attacks, by the names of /proc/self/ns."""
    variable: str
    """An environment variable with the secret."""


class Untried(Exception):  # noqa: N818
    """It cannot be tried here; the text says why."""


def prepare(step: Callable[[], object]) -> None:
    """Takes a step that is allowed and that the attack needs: refused, it must not pass for the attack."""
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
    run: Callable[[World], str | None]
    needs_root: bool
    """Without a fence it works for root alone."""
    fenced_only: str
    """Why it proves nothing without a fence; mostly empty."""
    stage: Stage


ENTERED: dict[str, Attack] = {}


def attack(
    tries: str,
    claim: str = BOUNDARY,
    *,
    needs_root: bool = False,
    fenced_only: str = "",
    stage: Stage = Stage.AFTER,
) -> Callable[[Callable[[World], str | None]], Callable[[World], str | None]]:
    """Enters a function as an attack of its name."""

    def enter(run: Callable[[World], str | None]) -> Callable[[World], str | None]:
        name = run.__name__
        ENTERED[name] = Attack(name, tries, claim, run, needs_root, fenced_only, stage)
        return run

    return enter
