"""The seccomp programs that plans name, compiled once, by the keeper, which has time while its host loads."""

from functools import lru_cache

from pinfold.kernel.numbers import MACHINE
from pinfold.kernel.seccomp import pack
from pinfold.sandbox.seccomp import PAIRS, STREAMS
from pinfold.sandbox.seccomp.profile import Reads, UnixSockets, Warden, profile

Filters = dict[str, bytes]
"""By the name in the plan."""
UNIX = {PAIRS: UnixSockets.PAIRS, STREAMS: UnixSockets.STREAMS}


def filters_of(operations: tuple[tuple[object, ...], ...]) -> Filters:
    """What a plan's operations name."""
    steps = [step for step in operations if step[0] == "seccomp"]
    reads = notes_reads(operations)
    return {str(step[1]): compiled(str(step[1]), bool(step[2]), bool(step[4]), reads) for step in steps}


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
