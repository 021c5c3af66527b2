"""Structs that several threads may be the first to read.

Facts about msgspec 0.22, as tried: threads that decode or convert to the same nested Struct for the first
time, all at once, end the process by SIGSEGV; one after another they do not. It gathers what it must know of
a Struct at the first use, and the others see that half done. A decoder gathers it too.
"""

from _thread import allocate_lock
from typing import TypeVar

from msgspec.json import Decoder

_T = TypeVar("_T")
_gathering = allocate_lock()
_gathered: set[object] = set()


def ready(kind: type[_T]) -> type[_T]:
    """The same type, which any number of threads may now decode or convert to."""
    if kind not in _gathered:
        with _gathering:
            Decoder(kind)
            _gathered.add(kind)
    return kind
