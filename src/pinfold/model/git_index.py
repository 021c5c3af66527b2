"""What a git index holds: the files that git tracks, and the repositories that it links to. Pure.

Facts about git (gitformat-index(5), read-cache.c): of a mode, the type alone makes an entry a link; a name
has the length that the flags tell, or ends at a NUL where that is 4,095 or more. From version 4 on, an entry
leaves out what its name shares with the one before. What a split index shares is in another file.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

HEAD = Struct(">4sII")
STATS = 40
MODE = Struct(">I")
MODE_AT = 24
FLAGS = Struct(">H")
EXTENSION = Struct(">4sI")
TYPE, LINK = 0o170000, 0o160000
EXTENDED, LONG = 0x4000, 0x0FFF
SPLIT = b"link"


class IndexEntry(NamedTuple):
    name: bytes
    """Its path in the working tree."""
    mode: int
    object: bytes
    """The hash of what was added."""


def linked_repositories(index: bytes, hash_size: int) -> Iterator[bytes]:
    """Their paths in the working tree. ValueError where git might read something else."""
    return (entry.name for entry in entries(index, hash_size) if entry.mode & TYPE == LINK)


def entries(index: bytes, hash_size: int) -> Iterator[IndexEntry]:
    """All of it, by name. ValueError where git might read something else."""
    try:
        yield from _entries(index, hash_size)
    except (error, IndexError):
        raise ValueError("the index ends early") from None


def _entries(index: bytes, hash_size: int) -> Iterator[IndexEntry]:
    signature, version, count = HEAD.unpack_from(index)
    if signature != b"DIRC" or not 2 <= version <= 4:
        raise ValueError("no index of a known version")
    at, name = HEAD.size, b""
    for _ in range(count):
        (mode,) = MODE.unpack_from(index, at + MODE_AT)
        (flags,) = FLAGS.unpack_from(index, at + STATS + hash_size)
        start = at + STATS + hash_size + (4 if flags & EXTENDED else 2)
        shared = b""
        if version == 4:
            left_out, start = _number(index, start)
            shared = name[: max(0, len(name) - left_out)]
        length = (flags & LONG) - len(shared)
        if flags & LONG == LONG:
            length = index.index(b"\0", start) - start
        if length < 0:
            raise ValueError("a name that is shorter than what it shares")
        name = shared + index[start : start + length]
        yield IndexEntry(name.partition(b"\0")[0], mode, index[at + STATS : at + STATS + hash_size])
        at = start + length + 1 if version == 4 else at + ((start - at + length + 8) & ~7)
    _require_whole(index, at, hash_size)


def _number(index: bytes, at: int) -> tuple[int, int]:
    """As in packs (OFS_DELTA): seven bits a byte, each further byte adds one."""
    value = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (index[at] & 0x7F)
    return value, at + 1


def _require_whole(index: bytes, at: int, hash_size: int) -> None:
    while at + EXTENSION.size <= len(index) - hash_size:
        name, size = EXTENSION.unpack_from(index, at)
        if name == SPLIT:
            raise ValueError("a part of the index is in another file")
        at += EXTENSION.size + size
