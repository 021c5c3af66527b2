"""Git's own file formats: configuration and index, read as git reads them.

The standard library alone: the warden reads the configuration too.

Facts about git's configuration (config.c; a fuzz test compares with `git config --list`):
- Section and key names are case-insensitive ASCII; a subsection is quoted, any byte may follow a backslash
  in it; `[a.B]` is an old spelling of `[a "b"]`, in lower case.
- A value may go on after a backslash at its line's end, a comment may not; of the escapes only
  `\\n \\t \\b \\" \\\\` are known; a quote that is still open at the line's end is an error.
- A space within a value stays; a tab there becomes a space up to 2.44, and stays from 2.45 on.
- CR LF ends a line; a lone CR is white space, but only in some places. Git cuts a value or a subsection at
  a NUL, and passes over a byte order mark.

What this means for us: a file that two readers could take differently has no meaning here. A NUL, a lone CR
and a byte order mark are errors, although git goes on.

Facts about git's index (gitformat-index(5), read-cache.c): of a mode, the type alone makes an entry a link; a
name has the length in the flags, or ends at a NUL where that is 4,095 or more. From version 4 on, an entry
leaves out what its name shares with the one before. The shared part of a split index is in another file.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

LARGEST = 1 << 20
_BLANK = b" \t"
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAME = _LETTERS + b"0123456789-"
_ESCAPED = {ord("n"): 10, ord("t"): 9, ord("b"): 8, ord('"'): ord('"'), ord("\\"): ord("\\")}
_NEWLINE, _QUOTE, _BACKSLASH = b'\n"\\'


def parse_config(data: bytes) -> Iterator[tuple[str, str]]:
    """(`section.subsection.key`, value) for each setting, a key without a value as `true`.

    ValueError if git would read no further, or might read something else. Bytes that are no UTF-8 are lone
    surrogates, as in file names.
    """
    return _Reader(_with_plain_lines(data)).settings()


def _with_plain_lines(data: bytes) -> bytes:
    if len(data) > LARGEST:
        raise ValueError("larger than any configuration")
    data = data.replace(b"\r\n", b"\n")
    if b"\r" in data or b"\0" in data or data.startswith(b"\xef\xbb\xbf"):
        raise ValueError("a byte that git and others read differently")
    return data if data.endswith(b"\n") else data + b"\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class _Reader:
    """INVARIANT: the data ends with a newline, and no method reads past a newline without looking at it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def settings(self) -> Iterator[tuple[str, str]]:
        section = b""
        while self._next() is not None:
            byte = self.data[self.at]
            if byte in b"#;":
                self.at = self.data.index(b"\n", self.at)
            elif byte == ord("["):
                self.at += 1
                section = self._section()
            elif byte in _LETTERS and section:
                name = self._run(_NAME).lower()
                yield _text(section + b"." + name), _text(self._setting())
            else:
                raise ValueError("neither a section nor a key")

    def _next(self) -> int | None:
        """Skips white space; returns where the next item begins, None at the end."""
        self._run(_BLANK + b"\n")
        return self.at if self.at < len(self.data) else None

    def _run(self, members: bytes) -> bytes:
        start = self.at
        while self.at < len(self.data) and self.data[self.at] in members:
            self.at += 1
        return self.data[start : self.at]

    def _take(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _section(self) -> bytes:
        name = self._run(_NAME + b".").lower()
        byte = self._take()
        if byte in _BLANK:
            self._run(_BLANK)
            if self._take() != _QUOTE:
                raise ValueError("a section with more than a subsection")
            name += b"." + self._subsection()
            byte = self._take()
        if byte != ord("]") or not name:
            raise ValueError("a section is not closed, or has no name")
        return name

    def _subsection(self) -> bytes:
        name = bytearray()
        while (byte := self._take()) != _QUOTE:
            if byte == _BACKSLASH:
                byte = self._take()
            if byte == _NEWLINE:
                raise ValueError("a subsection is not closed")
            name.append(byte)
        return bytes(name)

    def _setting(self) -> bytes:
        self._run(_BLANK)
        byte = self._take()
        if byte == _NEWLINE:
            return b"true"
        if byte != ord("="):
            raise ValueError("a key with neither a value nor a line's end")
        return self._value()

    def _value(self) -> bytes:
        value = bytearray()
        spaces, quoted = 0, False
        while (byte := self._take()) != _NEWLINE:
            if byte in _BLANK and not quoted:
                spaces += 1 if value else 0
                continue
            if byte in b"#;" and not quoted:
                self.at = self.data.index(b"\n", self.at)
                continue
            value += b" " * spaces
            spaces = 0
            if byte == _QUOTE:
                quoted = not quoted
            elif byte != _BACKSLASH:
                value.append(byte)
            elif (byte := self._take()) != _NEWLINE:
                if byte not in _ESCAPED:
                    raise ValueError("an escape that git does not know")
                value.append(_ESCAPED[byte])
            elif self.at == len(self.data):
                break  # the data ends here: so does the value
        if quoted:
            raise ValueError("a quote is not closed")
        return bytes(value)


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
    """The hash of the staged content."""


def linked_repositories(index: bytes, hash_size: int) -> Iterator[bytes]:
    """Paths in the working tree of linked repositories. ValueError where git might read something else."""
    return (entry.name for entry in entries(index, hash_size) if entry.mode & TYPE == LINK)


def entries(index: bytes, hash_size: int) -> Iterator[IndexEntry]:
    """All entries, by name. ValueError where git might read something else."""
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
    """A number as packs have it (OFS_DELTA): seven bits a byte, each further byte adds one."""
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
