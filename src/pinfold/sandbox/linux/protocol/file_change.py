"""One change to the file system that a caller waits for: what the warden saw, as a person is asked about it
and as the hand does it. Plain tuples, since they travel by `channel`.

A deed names directories by where they lie and by their inodes, and things by their inodes or as absent.
Whoever does it finds the same there, or does nothing.
"""

import os
import stat
from typing import NamedTuple

Thing = tuple[int, int, int]
"""The type of a file (S_IFMT), its device and its inode's number."""


DO, LIKELY = "do", "likely"
"""What the hand is told of a deed: to do it, or to say whether it could be done at all. That is asked first:
nobody is asked for what would fail."""
CHANGED = -1
"""What the hand answers in the place of an errno: something else is there by now."""
COMPLETES = -2
"""The same: the name would make its directory a repository (`model.repositories`), which nobody can grant."""


class End(NamedTuple):
    """One path of a call, every link followed."""

    directory: str
    parent: tuple[int, int]
    """That directory's device and inode."""
    name: bytes
    thing: Thing | None
    """What had this name when it was looked at; None if nothing had."""

    @property
    def path(self) -> str:
        return f"{self.directory.rstrip('/')}/{os.fsdecode(self.name)}"


class Deed(NamedTuple):
    operation: str
    """open, mkdir, mknod, symlink, link, rename, unlink, rmdir, truncate or chmod."""
    ends: tuple[End, ...]
    """What is changed; behind it, of a rename or a link, what it is made of."""
    numbers: tuple[int, ...]
    """Flags, mode and the like, as the call has them; of a chmod, the old mode behind the new; the caller's
    umask last."""
    text: bytes = b""
    """Of a symlink, where it is to lead."""

    @property
    def path(self) -> str:
        return self.ends[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(end.path for end in self.ends)

    @property
    def modes(self) -> tuple[int, int] | None:
        """Of a chmod, type and mode of the thing when it was looked at, and what the mode is to be."""
        return (self.numbers[1], self.numbers[0] & MODE) if self.operation == "chmod" else None

    @property
    def makes(self) -> bool:
        """Whether there is a new name, or another thing under the old one, afterwards."""
        return self.operation not in REMOVING and (self.ends[0].thing is None or self.operation == "rename")

    def plain(self) -> tuple[object, ...]:
        ends = tuple(tuple(end) for end in self.ends)
        return (self.operation, ends, self.numbers, self.text)


REMOVING = ("unlink", "rmdir")
MODE = 0o3777
"""Of a mode, what is made on a caller's behalf: nothing that makes a program run as its owner, as with chmod
(`seccomp.profile`)."""


def parse_deed(plain: tuple[str, tuple[tuple[object, ...], ...], tuple[int, ...], bytes]) -> Deed:
    operation, ends, numbers, text = plain
    return Deed(operation, tuple(End(*end) for end in ends), numbers, text)  # type: ignore[arg-type]


def thing_of(status: os.stat_result) -> Thing:
    return stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino
