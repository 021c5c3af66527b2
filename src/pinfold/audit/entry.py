"""One row of the journal."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Entry(Struct, frozen=True):
    id: int
    at: float
    """Seconds since 1970."""
    session: str
    kind: str
    """run, refused, end, connect, elevation, file, policy, trouble, forgotten."""
    about: int | None
    """The entry that this one is the end of."""
    data: Mapping[str, Any]
