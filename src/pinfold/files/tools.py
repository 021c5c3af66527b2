"""The tools: read, write, replace, append, delete, move, list, glob, search.

Each calls `permit` with the place that a path really is, before it does anything there. It then works through
the descriptors by which that place was found.

INVARIANT: a tool makes or removes a name only while no pen moves a directory, in the directory that has the
judged path at that time, and only if it would be permitted then. Commands run while a tool works. Together
with it they could otherwise make what neither may.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from pinfold.files.atomic_write import HoldStill, failed, replace_file, require_one_name
from pinfold.files.held_dirs import (
    KINDS,
    LONGEST_GLOB,
    MOST_PARTS,
    HeldDirectories,
    HeldName,
    matches,
    opened,
    require_file,
    walk,
)
from pinfold.files.text_format import DecodedText, decode, lines_of, replace_blocks
from pinfold.kernel.files import RENAME_NOREPLACE, renameat2
from pinfold.model.errors import FileRefused

LARGEST = 16 << 20
MOST_FOUND = 10_000
LONGEST_LINE = 2_000


class Access(StrEnum):
    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    LOOK = "look"
    """To show that something exists, in a list."""


TOOLS = {
    "read": Access.READ,
    "list": Access.READ,
    "glob": Access.READ,
    "search": Access.READ,
    "write": Access.WRITE,
    "replace": Access.WRITE,
    "append": Access.WRITE,
    "delete": Access.DELETE,
    "move": Access.DELETE,
}
"""The most that each tool needs."""

Confirm = Callable[[], None]
"""Judges once more what was permitted, without asking. Raises FileRefused if it is not permitted by now."""
Permit = Callable[[str, Access, str], Confirm]
"""Takes the tool, the access and the place. Returns if it is permitted, and raises FileRefused if not."""
KeepStill = Callable[[], AbstractContextManager[None]]
"""Keeps pens from moving anything. Raises OSError if they do not stop in time."""


class FileText(NamedTuple):
    text: str
    encoding: str
    newline: str
    first_line: int
    lines: int
    """How many lines the whole file has."""


class WriteResult(NamedTuple):
    path: str
    created: bool


class DirectoryEntry(NamedTuple):
    path: str
    kind: str
    """`a file`, `a directory`, `a link` ..."""
    size: int


class SearchHit(NamedTuple):
    path: str
    line: int
    text: str


class FileTools:
    """`start` is what relative paths start from."""

    def __init__(
        self, ground: HeldDirectories, permit: Permit, start: Callable[[], str], keep_still: KeepStill
    ) -> None:
        self._ground, self._permit, self._start, self._keep_still = ground, permit, start, keep_still

    # Reading

    def read(self, path: str, *, first_line: int = 1, lines: int | None = None) -> FileText:
        """The text of a file, or some lines of it."""
        if first_line < 1:
            raise ValueError(f"lines are numbered from 1: there is no line {first_line}")
        if lines is not None and lines < 0:
            raise ValueError(f"{lines} lines cannot be read")
        with self._spot("read", path) as spot:
            found = self._text(spot, path)
        all_lines = lines_of(found.text)
        start = first_line - 1
        chosen = all_lines[start:] if lines is None else all_lines[start : start + lines]
        return FileText("".join(chosen), found.encoding, found.newline, first_line, len(all_lines))

    def entries(self, path: str = ".") -> list[DirectoryEntry]:
        """What is in a directory, except what is hidden."""
        with self._directory("list", path) as (descriptor, place):
            found = []
            for name in sorted(os.listdir(descriptor)):
                try:
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except OSError:
                    continue
                if self._may_see(f"{place}/{name}"):
                    found.append(DirectoryEntry(name, _kind(status), status.st_size))
            return found

    def glob(self, pattern: str, path: str = ".") -> list[str]:
        """The paths below a directory that a pattern matches, `**` for any depth; relative to it."""
        _require_short(pattern)
        with self._directory("glob", path) as (descriptor, place):
            found = []
            for below, _, _, status in walk(descriptor):
                if matches(pattern, below) and self._may_see(f"{place}/{below}"):
                    found.append(below + ("/" if stat.S_ISDIR(status.st_mode) else ""))
                    if len(found) == MOST_FOUND:
                        break
            return found

    def search(self, pattern: str, path: str = ".", *, only: str = "**") -> list[SearchHit]:
        """The lines that an RE2 regular expression matches in a file, or in the files below a directory."""
        _require_short(only)
        expression = _expression(pattern)
        hits = (
            SearchHit(below, number, line[:LONGEST_LINE])
            for below, text in self._texts(path, only)
            for number, ended in enumerate(lines_of(text), 1)
            if expression(line := ended.rstrip("\r\n"))
        )
        return list(islice(hits, MOST_FOUND))

    def _texts(self, path: str, only: str) -> Iterator[tuple[str, str]]:
        with self._spot("search", path) as spot:
            status = spot.status()
            if status is not None and stat.S_ISREG(status.st_mode):
                yield path, self._text(spot, path).text
                return
        with self._directory("search", path) as (descriptor, place):
            for below, directory, name, status in walk(descriptor):
                if not stat.S_ISREG(status.st_mode) or not matches(only, below):
                    continue
                if not self._may_see(f"{place}/{below}"):
                    continue
                try:
                    with opened(HeldName(directory, name, ""), os.O_RDONLY, below) as file:
                        found = decode(_all(file, below))
                except (FileRefused, OSError):
                    continue  # it has changed, cannot be read, or is too large
                if found:
                    yield below, found.text

    # Changing

    def write(self, path: str, text: str) -> WriteResult:
        """Makes a file, or replaces what is in it; its encoding, line ends and mode stay."""
        _require_text(text, path)
        return self._changed("write", path, lambda _: text, text)

    def replace(self, path: str, blocks: Sequence[tuple[str, str]]) -> WriteResult:
        """Search-and-replace: every block is found exactly once and replaced, or nothing is."""
        return self._changed("replace", path, lambda text: replace_blocks(text, blocks, path))

    def append(self, path: str, text: str) -> WriteResult:
        """Adds to the end of a file, or makes it."""
        _require_text(text, path)
        return self._changed("append", path, lambda before: before + text, text)

    def _changed(
        self, tool: str, path: str, change: Callable[[str], str], new: str | None = None
    ) -> WriteResult:
        """Changes the text of a file. Makes a missing one with the text `new`, if that is given."""
        with self._changing(tool, path, Access.WRITE) as (spot, still):
            before = spot.status()  # before reading: a save meanwhile is not overwritten
            if before is None and new is not None:
                replace_file(spot, path, new.encode(), None, still)
                return WriteResult(spot.path, True)
            found = self._text(spot, path)
            replace_file(spot, path, _encoded(found, change(found.text), path), before, still)
            return WriteResult(spot.path, False)

    def delete(self, path: str) -> None:
        """Removes a file, a link or an empty directory."""
        with self._changing("delete", path, Access.DELETE) as (spot, still):
            status = spot.status()
            if status is None:
                raise _absent(path)
            remove = os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink
            try:
                with still():
                    remove(spot.name, dir_fd=spot.directory)
            except OSError as error:
                raise failed(error, path) from None

    def move(self, old: str, new: str) -> WriteResult:
        """Gives a file another name; never replaces a file that has that name."""
        with (
            self._changing("move", old, Access.DELETE) as (source, _),
            self._changing("move", new, Access.WRITE) as (spot, still),
        ):
            status = source.status()
            if status is None:
                raise _absent(old)
            # A moved directory could expose what is hidden by its place.
            require_file(status, old)
            require_one_name(status, old)
            try:
                with still():
                    self._ground.require_in_place(source)
                    renameat2(source.directory, source.name, spot.directory, spot.name, RENAME_NOREPLACE)
            except FileExistsError:
                said = f"{new} already exists"
                raise FileRefused("exists", new, said, "delete it first, or choose another name") from None
            except OSError as error:
                raise failed(error, new) from None
            return WriteResult(spot.path, True)

    # How

    @contextmanager
    def _spot(self, tool: str, path: str) -> Iterator[HeldName]:
        """A place that may be read: permitted where it really is, then found there again, and held."""
        place = self._ground.place(path, self._start())
        self._permit(tool, Access.READ, place)
        with self._ground.spot(place) as spot:
            yield spot

    @contextmanager
    def _changing(self, tool: str, path: str, access: Access) -> Iterator[tuple[HeldName, HoldStill]]:
        """A place that may be changed, and what keeps it as it was judged during the change."""
        place = self._ground.place(path, self._start(), itself=access is Access.DELETE)
        if place in self._ground.places:
            said = f"{path} is a project's top directory"
            raise FileRefused("root", path, said, "use a path inside it")
        confirm = self._permit(tool, access, place)

        @contextmanager
        def still() -> Iterator[None]:
            with self._keep_still():
                self._ground.require_in_place(spot)
                confirm()
                yield

        with ExitStack() as stack:
            try:
                with self._keep_still():
                    confirm()
                    spot = stack.enter_context(self._ground.spot(place, make=access is Access.WRITE))
            except OSError as error:
                raise failed(error, path) from None
            yield spot, still

    @contextmanager
    def _directory(self, tool: str, path: str) -> Iterator[tuple[int, str]]:
        """A directory, opened to be listed, and where it is."""
        with self._spot(tool, path) as spot:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                descriptor = os.open(spot.name or ".", flags, dir_fd=spot.directory)
            except OSError as error:
                raise failed(error, path) from None
            try:
                yield descriptor, spot.path
            finally:
                os.close(descriptor)

    def _may_see(self, path: str) -> bool:
        try:
            self._permit("list", Access.LOOK, path)
        except FileRefused:
            return False
        return True

    def _text(self, spot: HeldName, path: str) -> DecodedText:
        status = spot.status()
        if status is None:
            raise _absent(path)
        require_file(status, path)
        with opened(spot, os.O_RDONLY, path) as file:
            found = decode(_all(file, path))
        if found is None:
            raise FileRefused("not_text", path, f"{path} is not a text file", "use a command to read it")
        return found


def _require_short(glob: str) -> None:
    if len(glob) > LONGEST_GLOB or glob.count("/") >= MOST_PARTS:
        said = f"a glob may have at most {LONGEST_GLOB:,} characters and {MOST_PARTS} parts"
        raise FileRefused("bad_pattern", "", said, "pass the directory as the path, and a shorter glob")


def _expression(pattern: str) -> Callable[[str], object]:
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False  # it would write to our standard error
    try:
        found: Callable[[str], object] = re2.compile(pattern, options).search
    except re2.error as error:
        why = error.args[0] if error.args else ""
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
        said = f"`{pattern}` is not a valid RE2 regular expression: {why}"
        raise FileRefused(
            "bad_pattern", "", said, "RE2 supports no look-around and no back-references"
        ) from None
    return found


def _require_text(text: str, path: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"the text to write must be str, got {type(text).__name__}")
    _encoded(DecodedText(text), text, path)  # before any directory is made for it


def _encoded(as_it_was: DecodedText, text: str, path: str) -> bytes:
    try:
        return as_it_was.encoded(text)
    except UnicodeEncodeError as error:
        said = f"{path} is encoded as {as_it_was.encoding}, which has no {error.object[error.start]!r}"
        raise FileRefused("encoding", path, said, "leave that character out, or convert the file") from None


def _all(file: int, path: str) -> bytes:
    """The bytes of a file. Its size is checked before reading, and again after: it may grow."""
    pieces, size = [], os.fstat(file).st_size
    if size <= LARGEST:
        size = 0
        while size <= LARGEST and (piece := os.read(file, 1 << 20)):
            pieces.append(piece)
            size += len(piece)
    if size > LARGEST:
        said = f"{path} has more than {LARGEST >> 20} MB"
        raise FileRefused("too_large", path, said, "use a command to read a part of it")
    return b"".join(pieces)


def _kind(status: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(status.st_mode), "a file")


def _absent(path: str) -> FileRefused:
    return FileRefused("absent", path, f"{path} does not exist", "list the directory to see what does")
