"""Which repository git would use in a directory: found and read byte by byte as git does it.

Facts about git (setup.c; held to `git rev-parse` by a fuzz test):
- git climbs from the working directory, links followed. In each directory it tries `.git`, which is a git
  directory, or a file with `gitdir: PATH`; then the directory itself.
- A git directory has a HEAD: a link to `refs/...`, or a file that begins with `ref:`, white space and
  `refs/`, or with 40 hexadecimal digits. Git reads 255 bytes of it. And it has `objects` and `refs`, in
  itself or where its `commondir` leads: anything that may be searched or executed, so a program will do.
- The PATH of a `.git` file begins right after `gitdir: `, at a blank too, and ends before the last line ends;
  so does that of `commondir`. Both end at a NUL. A `.git` file has at most a megabyte.
- Where a `.git` file or a `commondir` says nothing that git understands, git dies. Where `.git` cannot be
  looked at, or is neither a file nor a directory, versions before 2.54 climb on.

What this means for us: a file that git would die of, or that its versions read differently, is a doubt. The
search goes on, as that of an older version may.

git stops where another file system is mounted, and at `GIT_CEILING_DIRECTORIES`; here nothing stops it.
"""

import os
import re
import stat
from collections.abc import Iterator

from msgspec import Struct

from pinfold.model.symlinks import real_path

HEAD_BYTES = 255
LARGEST = 1 << 20
REFERENCE = re.compile(rb"ref:[ \t\n\r]*refs/")
OBJECT = re.compile(rb"[0-9a-fA-F]{40}")
GITFILE = b"gitdir: "
COMMON = "commondir"
NOWHERE = "/dev/null/nowhere"


class Repository(Struct, frozen=True):
    top: str
    """The working tree's top directory; a bare repository's own."""
    directory: str
    """The git directory of this working tree."""
    common: str
    """The git directory that linked worktrees share: config, hooks, info."""


def find_repository(directory: str) -> Repository | None:
    """The repository that git would use in `directory`."""
    return RepositorySearch().repository_of(directory)


def repositories_around(directory: str) -> Iterator[Repository]:
    """The repository that git would use in `directory`, and those that this one lies in."""
    search = RepositorySearch()
    while found := search.repository_of(directory):
        yield found
        directory, below = os.path.dirname(found.top), found.top
        if directory == below:
            return


class RepositorySearch:
    """For one repository, or for several."""

    def __init__(self) -> None:
        self.doubts: list[str] = []
        """Paths that git may take for something else."""

    def repository_of(self, directory: str) -> Repository | None:
        top = real_path(directory)
        while not (found := self._found_in(top)):
            above = os.path.dirname(top)
            if above == top:
                return None
            top = above
        return found

    def _found_in(self, top: str) -> Repository | None:
        """The repository of this very directory."""
        entry = os.path.join(top, ".git")
        mode = self._mode(entry)
        told = _told(entry, GITFILE) if stat.S_ISREG(mode) else None
        place = entry if stat.S_ISDIR(mode) else os.path.join(top, told) if told else ""
        found = self._repository(top, place) if place else None
        if found is None and mode and not stat.S_ISDIR(mode):
            self.doubts.append(entry)
        return found or self._repository(top, top)

    def _repository(self, top: str, directory: str) -> Repository | None:
        if not self._has_head(directory):  # nor have most, and nothing else of them needs to be looked at
            return None
        common = told_common(directory)
        if not os.path.isdir(common):
            self.doubts.append(os.path.join(directory, COMMON))
        if not all(os.access(os.path.join(common, name), os.X_OK) for name in ("objects", "refs")):
            return None
        return Repository(top, directory, real_path(common))

    def _mode(self, entry: str) -> int:
        try:
            return os.stat(entry).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError:
            self.doubts.append(entry)
            return 0

    def _has_head(self, directory: str) -> bool:
        path = os.path.join(directory, "HEAD")
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                return os.fsencode(os.readlink(path)).startswith(b"refs/")
        except (OSError, ValueError):
            return False
        if stat.S_ISREG(mode):
            text = read_bytes(path, HEAD_BYTES) or b""
            return bool(REFERENCE.match(text) or OBJECT.match(text))
        if not stat.S_ISDIR(mode):
            self.doubts.append(path)
        return False


def told_common(directory: str) -> str:
    """Where a git directory says that what it shares lies, as it says it; itself if it says nothing."""
    path = os.path.join(directory, COMMON)
    told = _told(path) if os.path.lexists(path) else ""
    return NOWHERE if told is None else os.path.join(directory, told) if told else directory


def _told(path: str, start: bytes = b"") -> str | None:
    """The path that such a file names; None where git would not know."""
    data = read_bytes(path, LARGEST + 1)
    if not data or len(data) > LARGEST or not data.startswith(start):
        return None
    return os.fsdecode(data[len(start) :].rstrip(b"\r\n").partition(b"\0")[0])


def read_bytes(path: str, most: int) -> bytes | None:
    """The beginning of a plain file; None if there is none that can be read. Never waits for a fifo."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        data = bytearray()
        while len(data) < most and (piece := os.read(file, most - len(data))):
            data += piece
        return bytes(data)
    except OSError:
        return None
    finally:
        os.close(file)
