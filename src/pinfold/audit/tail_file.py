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
    """The number of the entry that this one is the end of."""
    data: Mapping[str, Any]


SUFFIX = ".new"
"""What the file is called, after the journal."""
OPENED = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""O_NONBLOCK: a FIFO of that name does not make us wait."""
BUSY = 5.0
"""Seconds to wait for other processes."""
STEP = 0.001
HEAD = b"%020d %011d\n"
HEAD_SIZE = len(HEAD % (0, 0))
POLICY = b'"kind":"policy"'


class TailRow(Struct, frozen=True):
    """An entry whose data is not decoded."""

    id: int
    at: float
    session: str
    kind: str
    about: int | None
    data: Raw


class TailFile:
    """Preconditions: except for `begin` and `end`, the caller has its turn."""

    def __init__(self, journal: str, flags: int = os.O_RDONLY) -> None:
        self.file = os.open(journal + SUFFIX, flags | OPENED, 0o600)

    def begin(self, how: int = fcntl.LOCK_EX) -> None:
        """Waits for a turn. Raises OSError if other processes do not end theirs."""
        if self.file < 0:
            raise OSError("the journal is closed")
        late = time.monotonic() + BUSY
        while True:
            try:
                return fcntl.flock(self.file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > late:
                    raise OSError("another process keeps it locked") from None
                time.sleep(STEP)

    def end(self) -> None:
        """Ends the turn, if there was one."""
        if self.file >= 0:
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def head(self) -> tuple[int, int]:
        """The next number, and where the lines end; 0 and 0 for a new file."""
        head = os.pread(self.file, HEAD_SIZE, 0)
        if not head.strip(b"\0"):
            # A device such as /dev/null accepts everything and keeps nothing.
            if not stat.S_ISREG(os.fstat(self.file).st_mode):
                raise OSError(f"it is not pinfold's: its {SUFFIX} file is not a regular file")
            return 0, 0
        try:
            return int(head[:20]), int(head[21:])
        except ValueError:
            raise OSError(f"it is not pinfold's: its {SUFFIX} file has no valid head") from None

    def put(self, entry: JournalEntry, end: int) -> int:
        """Appends an entry; returns where the lines end then."""
        line = as_json(entry) + b"\n"
        end = end or HEAD_SIZE
        self._write(line, end)
        self._write(HEAD % (entry.id + 1, end + len(line)), 0)
        return end + len(line)

    def _write(self, data: bytes, at: int) -> None:
        if os.pwrite(self.file, data, at) != len(data):
            raise OSError("not enough disk space")

    def clear(self, number: int) -> int:
        """Removes the lines and keeps the next number; returns where the lines end then."""
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
        """Closes the file. Its descriptor may belong to another file from then on."""
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
    """A text with lone surrogates escaped, which Python uses for bytes that are not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
