"""One change to the file system that a caller waits for: the warden describes it, a person is asked about it,
and the granter makes it.

A change names directories by their paths and inodes, and files by their inodes or as absent. The granter
finds the same there, or does nothing.
"""

import os
import stat

from pinfold.sandbox.linux.protocol.message import WireMessage

FileId = tuple[int, int, int]
"""The type of a file (S_IFMT), its device and its inode's number."""
REMOVING = ("unlink", "rmdir")
MODE = 0o3777
"""The bits of a mode that are set on a caller's behalf: none that makes a program run as its owner, as with
chmod (`seccomp.profile`)."""


class ChangedEntry(WireMessage):
    """One path of a call, every link followed."""

    directory: str
    parent: tuple[int, int]
    """That directory's device and inode."""
    name: bytes
    file: FileId | None
    """What had this name when the warden looked; None if nothing had."""

    @property
    def path(self) -> str:
        return f"{self.directory.rstrip('/')}/{os.fsdecode(self.name)}"


class FileChange(WireMessage):
    operation: str
    """open, mkdir, mknod, symlink, link, rename, unlink, rmdir, truncate or chmod."""
    entries: tuple[ChangedEntry, ...]
    """What changes; for a rename or a link, the source is the second."""
    numbers: tuple[int, ...]
    """Flags, mode and the like, as the call has them; of a chmod, the old mode behind the new; the caller's
    umask last."""
    text: bytes = b""
    """The target of a symlink."""

    @property
    def path(self) -> str:
        return self.entries[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(entry.path for entry in self.entries)

    @property
    def modes(self) -> tuple[int, int] | None:
        """Of a chmod: the file's type and mode when the warden looked, and the mode it is to get."""
        return (self.numbers[1], self.numbers[0] & MODE) if self.operation == "chmod" else None

    @property
    def makes(self) -> bool:
        """Whether there is a new name, or another file under the old one, afterwards."""
        return self.operation not in REMOVING and (self.entries[0].file is None or self.operation == "rename")


class GranterRequest(WireMessage):
    """What the host asks of the granter."""

    change: FileChange


class CheckChange(GranterRequest):
    """Whether the change could be made at all. The host asks this first: no person is asked about a change
    that would fail."""


class MakeChange(GranterRequest):
    """The change is to be made."""


class ChangeDone(WireMessage):
    """The granter's answer; the descriptor of an open comes with it."""

    error: int
    """An errno, 0, `CHANGED` or `COMPLETES`."""


CHANGED = -1
"""In place of an errno: another file has the name by now."""
COMPLETES = -2
"""In place of an errno: the name would make its directory a repository (`model.git_repositories`), which no
grant covers."""


def file_id(status: os.stat_result) -> FileId:
    return stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino
