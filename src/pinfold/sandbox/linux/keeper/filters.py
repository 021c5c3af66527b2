"""The seccomp programs that plans name, compiled once, by the keeper, which has time while its host loads."""

from functools import lru_cache
from typing import NamedTuple

from pinfold.kernel.seccomp import pack
from pinfold.kernel.syscall_numbers import MACHINE
from pinfold.sandbox.seccomp import PAIRS, STREAMS
from pinfold.sandbox.seccomp.profile import Reads, UnixSockets, Warden, profile

Filters = dict[str, bytes]
"""By the name in the plan."""
UNIX = {PAIRS: UnixSockets.PAIRS, STREAMS: UnixSockets.STREAMS}


class Filtering(NamedTuple):
    """A step of a plan, as `operations.Seccomp` writes it."""

    profile: str
    watched: bool
    sockets: tuple[str, ...]
    asks: bool
    agents: tuple[str, ...] = ()


def filterings(operations: tuple[tuple[object, ...], ...]) -> list[Filtering]:
    return [Filtering(*step[1:]) for step in operations if step[0] == "seccomp"]  # type: ignore[arg-type]


def filters_of(operations: tuple[tuple[object, ...], ...]) -> Filters:
    """What a plan's operations name."""
    reads = notes_reads(operations)
    steps = filterings(operations)
    return {step.profile: compiled(step.profile, step.watched, step.asks, reads) for step in steps}


def notes_reads(operations: tuple[tuple[object, ...], ...]) -> bool:
    """Whether a plan has the warden hear of reads."""
    return any(step[0] == "notereads" for step in operations)


def compile_ahead() -> None:
    """What most plans name. By the same call: a cache tells a keyword from a position."""
    filters_of((("seccomp", STREAMS, True, (), False),))


@lru_cache(maxsize=4)
def compiled(name: str, watched: bool, asks: bool = False, reads: bool = False) -> bytes:
    warden = Warden.ASKING if asks else Warden.PRESENT if watched else Warden.ABSENT
    return pack(profile(MACHINE, warden, UNIX[name], Reads.NOTED if reads else Reads.UNSEEN))
