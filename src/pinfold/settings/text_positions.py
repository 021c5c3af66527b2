"""Places in a settings text. Finding them is `locate`'s business, and rarely needed."""

from typing import TypeAlias

from msgspec import Struct

Path: TypeAlias = tuple[str | int, ...]


class Place(Struct, frozen=True):
    """A stretch of the text; lines and columns count from 1."""

    line: int
    column: int
    length: int
    start: int
    """Its first character, counted from 0 through the whole text."""

    @property
    def end(self) -> int:
        return self.start + self.length


class Places(Struct, frozen=True):
    values: dict[Path, Place]
    """Every value, array elements and whole arrays included; not tables opened by a header."""
    keys: dict[Path, Place]
    """The key (its last part, where it is dotted) of each value, and the header of each table."""
    ends: dict[Path, int]
    """For a table with a header, `()` for the top: where its last own line ends."""
