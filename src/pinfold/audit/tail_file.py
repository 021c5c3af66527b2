"""The newest rows of the journal: a file of lines, each an entry as JSON.

Facts that shape it:
- The first line says which number is next and where the lines end. It is written after each of them. Half a
  line, from a process that was killed or had no room, does not count, and the next line overwrites it. If
  that was the first line, there are zeros where the head will be.
- What was written survives the death of this process at any moment. A power cut may take the last lines, or
  leave others in their place: what cannot be read is left out.
- flock belongs to an open file: each process that opens the file anew has a turn of its own.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import DecodeError, Raw, Struct, json, to_builtins


class JournalEntry(Struct, frozen=True):
    id: int
    at: float
    """Seconds since 1970."""
    session: str
    kind: str
    """run, refused, end, connect, elevation, file, policy, trouble, forgotten."""
    about: int | None
    """The entry that this one is the end of."""
    data: Mapping[str, Any]


SUFFIX = ".new"
"""What the file is called, after the journal."""
OPENED = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""If a fifo has its name, nobody waits for who writes there."""
BUSY = 5.0
"""Seconds that others are waited for."""
STEP = 0.001
HEAD = b"%020d %011d\n"
HEAD_SIZE = len(HEAD % (0, 0))
POLICY = b'"kind":"policy"'


class TailRow(Struct, frozen=True):
    """An entry whose data nobody looks into."""

    id: int
    at: float
    session: str
    kind: str
    about: int | None
    data: Raw


class TailFile:
    """Preconditions: but for `begin` and `end`, whoever calls has its turn."""

    def __init__(self, journal: str, flags: int = os.O_RDONLY) -> None:
        self.file = os.open(journal + SUFFIX, flags | OPENED, 0o600)

    def begin(self, how: int = fcntl.LOCK_EX) -> None:
        """Waits for a turn. Raises OSError if others do not come to an end."""
        if self.file < 0:
            raise OSError("it is closed")
        late = time.monotonic() + BUSY
        while True:
            try:
                return fcntl.flock(self.file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > late:
                    raise OSError("another process does not let go of it") from None
                time.sleep(STEP)

    def end(self) -> None:
        """Lets others have theirs, be it that there was none."""
        if self.file >= 0:
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def head(self) -> tuple[int, int]:
        """The number that is next, and where the lines end; 0 and 0 of a new file."""
        head = os.pread(self.file, HEAD_SIZE, 0)
        if not head.strip(b"\0"):
            # A device may take everything, and keep nothing.
            if not stat.S_ISREG(os.fstat(self.file).st_mode):
                raise OSError(f"it is not pinfold's: its {SUFFIX} is no plain file")
            return 0, 0
        try:
            return int(head[:20]), int(head[21:])
        except ValueError:
            raise OSError(f"it is not pinfold's: its {SUFFIX} has no head") from None

    def put(self, entry: JournalEntry, end: int) -> int:
        """Adds an entry behind the others; where they end then."""
        line = as_json(entry) + b"\n"
        end = end or HEAD_SIZE
        self._write(line, end)
        self._write(HEAD % (entry.id + 1, end + len(line)), 0)
        return end + len(line)

    def _write(self, data: bytes, at: int) -> None:
        if os.pwrite(self.file, data, at) != len(data):
            raise OSError("there is no room for all of it")

    def clear(self, number: int) -> int:
        """Takes the lines away, and the number stays the next one; where they end now."""
        self._write(HEAD % (number, HEAD_SIZE), 0)
        os.ftruncate(self.file, HEAD_SIZE)
        return HEAD_SIZE

    def rows(self) -> Iterator[TailRow]:
        for line in self._text().splitlines():
            try:
                yield json.decode(line, type=TailRow)
            except DecodeError:
                continue

    def last_policy(self) -> JournalEntry | None:
        text = self._text()
        found = text.rfind(POLICY)
        if found < 0:
            return None
        try:
            return json.decode(
                text[text.rfind(b"\n", 0, found) + 1 : text.find(b"\n", found)], type=JournalEntry
            )
        except DecodeError:
            return None

    def _text(self) -> bytes:
        return os.pread(self.file, max(0, self.head()[1] - HEAD_SIZE), HEAD_SIZE)

    def close(self) -> None:
        """Its number may be another file's from then on."""
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)


def as_json(entry: JournalEntry) -> bytes:
    try:
        return json.encode(entry, enc_hook=str)
    except UnicodeEncodeError:
        return json.encode(_spelled_out(to_builtins(entry, enc_hook=str)))


def _spelled_out(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_spelled_out(key): _spelled_out(each) for key, each in value.items()}
    return [_spelled_out(each) for each in value] if isinstance(value, list | tuple) else value


def storable(text: str) -> str:
    """A text without lone surrogates, which stand for bytes that were not UTF-8: those are spelled out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
