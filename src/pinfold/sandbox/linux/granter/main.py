"""The granter makes the changes that a person has granted, outside of every pen's mounts.

The keeper forks it. It runs as the user, in the machine's own namespaces, with no capability and no way to
gain one. It takes changes from the host alone, one at a time, and the host sends it granted changes alone. It
can do what any program of the user could; the granter of root can do what root without capabilities could.

Facts that shape it:
- Pens protect paths by read-only mounts of their own, so the granter reaches the same directory by another
  mount. It compares device and inode: a path that was renamed, or that a pen has covered, leads to another
  inode, and then the granter changes nothing.
- A pen's programs go on while a person thinks. Where they may change names, the name may belong to another
  file by now. So the granter opens, truncates, links or chmods the inode that it looked at (/proc/self/fd),
  and makes a name that was free by calls that fail if it exists.
- What was judged is a path, and commands of another session may have a granted directory for their project:
  they could move what is in it between the look and the change. So no pen moves anything meanwhile
  (`protocol.rename_lock`).
- A rename moves the file that has the name at that moment. So the granter links a plain file, by its inode,
  to a new random name beside the target, and renames that.
- A file with another hard link could be written by that link for good, beyond what was granted and for how
  long. So a copy of such a file gets the name.
- A process that has a file open for writing keeps it from being run (ETXTBSY). So an opened file is sent
  inside a socket of its own: from there on only the warden has it open, until the caller has it.

Accepted: a kill between that link and its rename leaves the name behind. unlink and rmdir remove the file
that has the name at that moment, microseconds after the look.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable

from pinfold.kernel import capabilities
from pinfold.kernel.files import (
    AT_FDCWD,
    AT_SYMLINK_FOLLOW,
    RENAME_EXCHANGE,
    STRICT,
    access_error,
    linkat,
    may_exist,
    openat2,
    renameat2,
    reopen,
)
from pinfold.kernel.process import close_all_but, set_name
from pinfold.model.git_repositories import completes, is_git_by_name
from pinfold.model.protected_names import folded
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.child_process import serve_alone
from pinfold.sandbox.linux.protocol.file_change import (
    CHANGED,
    COMPLETES,
    MODE,
    ChangedEntry,
    ChangeDone,
    CheckChange,
    FileChange,
    GranterRequest,
    file_id,
)
from pinfold.sandbox.linux.protocol.keeper import Ready
from pinfold.sandbox.linux.protocol.rename_lock import renames_locked

NAME = "pinfold-granter"
MAKING = os.O_CREAT | os.O_EXCL | os.O_TRUNC
MOST_COPIED = 1 << 28
"""Bytes: other changes wait for the granter meanwhile."""


class Changed(Exception):  # noqa: N818
    """What was looked at is not there any more."""


class Completes(Exception):  # noqa: N818
    """It would make a repository."""


def serve(host: socket.socket) -> None:
    """Becomes the granter, reports that it is ready, and makes the host's changes until the host is gone."""
    set_name(NAME)
    keeper = os.getppid()
    close_all_but({0, 1, 2, host.fileno()})
    capabilities.drop_all()
    serve_alone(keeper)
    granter = Granter()
    channel.send(host, Ready())
    while True:
        request, _ = channel.receive(host, GranterRequest)
        error, made = granter.answer(request)
        letters = () if made is None else (channel.enclosed(made),)
        channel.send(host, ChangeDone(error), letters)
        for letter in letters:
            os.close(letter)


class Granter:
    def __init__(self) -> None:
        self.root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.held: list[int] = []
        self.operations: dict[str, Callable[[FileChange, int], int | None]] = {
            "open": self.open,
            "mkdir": self.mkdir,
            "mknod": self.mknod,
            "symlink": self.symlink,
            "link": self.link,
            "rename": self.rename,
            "unlink": self.unlink,
            "rmdir": self.rmdir,
            "truncate": self.truncate,
            "chmod": self.chmod,
        }

    def answer(self, request: GranterRequest) -> tuple[int, int | None]:
        """An errno and a descriptor; 0 is done."""
        try:
            if isinstance(request, CheckChange):
                return self.check(request.change), None
            with renames_locked():
                return 0, self.make(request.change)
        except Changed:
            return CHANGED, None
        except Completes:
            return COMPLETES, None
        except OSError as error:
            return error.errno or errno.EIO, None
        finally:
            while self.held:
                os.close(self.held.pop())

    def check(self, change: FileChange) -> int:
        """The errno that it would end with for want of the user's own rights; 0 if none is in sight."""
        for entry in change.entries[: 2 if change.operation == "rename" else 1]:
            parent = self.parent(entry)
            if _now(parent, entry) != entry.file:
                raise Changed
            changes_file = entry.file is not None and change.operation in ("open", "truncate")
            changes_names = change.makes or change.operation in ("unlink", "rmdir")
            error = access_error(parent, entry.name, os.W_OK) if changes_file else 0
            if not error and changes_names:
                error = access_error(parent, b"", os.W_OK | os.X_OK)
            if error:
                return error
        _require_no_repository(change, self.parent(change.entries[0]))
        return 0

    def make(self, change: FileChange) -> int | None:
        os.umask(change.numbers[-1])
        parent = self.parent(change.entries[0])
        _require_no_repository(change, parent)
        return self.operations[change.operation](change, parent)

    def parent(self, entry: ChangedEntry) -> int:
        try:
            found = openat2(
                self.root, entry.directory.strip("/") or ".", os.O_PATH | os.O_DIRECTORY, resolve=STRICT
            )
        except OSError:
            raise Changed from None
        self.held.append(found)
        status = os.fstat(found)
        if (status.st_dev, status.st_ino) != entry.parent:
            raise Changed
        return found

    def file(self, parent: int, entry: ChangedEntry, *kinds: int) -> int:
        """The very inode that was looked at, as an O_PATH descriptor."""
        try:
            found = openat2(parent, entry.name, os.O_PATH | os.O_NOFOLLOW, resolve=STRICT)
        except OSError:
            raise Changed from None
        self.held.append(found)
        kind, device, number = file_id(os.fstat(found))
        if (kind, device, number) != entry.file or kind not in kinds:
            raise Changed
        return found

    # The operations.

    def open(self, change: FileChange, parent: int) -> int:
        entry, (flags, mode, _) = change.entries[0], change.numbers
        flags |= os.O_CLOEXEC | os.O_NOCTTY
        if entry.file is None:
            try:
                new = flags & ~os.O_TRUNC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                return os.open(entry.name, new, mode & MODE, dir_fd=parent)
            except FileExistsError:
                raise Changed from None
        inode = self.file(parent, entry, stat.S_IFREG)
        opened = reopen(inode, flags & ~(MAKING | os.O_NOFOLLOW))
        if flags & os.O_TRUNC:
            os.ftruncate(opened, 0)
        return opened

    def mkdir(self, change: FileChange, parent: int) -> None:
        self._require_free(change, parent)
        os.mkdir(change.entries[0].name, change.numbers[0] & MODE, dir_fd=parent)

    def mknod(self, change: FileChange, parent: int) -> None:
        self._require_free(change, parent)
        os.mknod(change.entries[0].name, change.numbers[0] & (0o170000 | MODE), dir_fd=parent)

    def symlink(self, change: FileChange, parent: int) -> None:
        self._require_free(change, parent)
        os.symlink(change.text, change.entries[0].name, dir_fd=parent)

    def link(self, change: FileChange, parent: int) -> None:
        self._require_free(change, parent)
        source = change.entries[1]
        inode = self.file(self.parent(source), source, stat.S_IFREG, stat.S_IFLNK)
        self._link(inode, parent, change.entries[0].name)

    def rename(self, change: FileChange, parent: int) -> None:
        target, source = change.entries
        if _now(parent, target) != target.file or change.numbers[0] & RENAME_EXCHANGE:
            raise Changed
        origin = self.parent(source)
        inode = self.file(origin, source, stat.S_IFREG)
        is_copied = os.fstat(inode).st_nlink > 1
        self._replace(self._copy if is_copied else self._link, inode, parent, target.name, change.numbers[0])
        if _now(origin, source) == source.file:
            os.unlink(source.name, dir_fd=origin)
        if not is_copied and os.fstat(inode).st_nlink > 1:  # it got one just then
            self._replace(self._copy, inode, parent, target.name)

    @staticmethod
    def _replace(
        put: Callable[[int, int, bytes], None], inode: int, parent: int, name: bytes, flags: int = 0
    ) -> None:
        beside = b".pinfold-%s" % os.urandom(8).hex().encode()
        put(inode, parent, beside)
        try:
            renameat2(parent, beside, parent, name, flags)
        except OSError:
            os.unlink(beside, dir_fd=parent)
            raise

    def unlink(self, change: FileChange, parent: int) -> None:
        self._require_same(change, parent)
        os.unlink(change.entries[0].name, dir_fd=parent)

    def rmdir(self, change: FileChange, parent: int) -> None:
        self._require_same(change, parent)
        os.rmdir(change.entries[0].name, dir_fd=parent)

    def truncate(self, change: FileChange, parent: int) -> None:
        opened = reopen(self.file(parent, change.entries[0], stat.S_IFREG), os.O_WRONLY)
        try:
            os.ftruncate(opened, change.numbers[0])
        finally:
            os.close(opened)

    def chmod(self, change: FileChange, parent: int) -> None:
        inode = self.file(parent, change.entries[0], stat.S_IFREG, stat.S_IFDIR)
        os.chmod(f"/proc/self/fd/{inode}", change.numbers[0] & MODE)

    @staticmethod
    def _link(inode: int, parent: int, name: bytes) -> None:
        linkat(AT_FDCWD, f"/proc/self/fd/{inode}", parent, name, AT_SYMLINK_FOLLOW)

    @staticmethod
    def _copy(inode: int, parent: int, name: bytes) -> None:
        read = reopen(inode, os.O_RDONLY | os.O_CLOEXEC)
        try:
            made = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=parent)
            try:
                status = os.fstat(read)
                if status.st_size > MOST_COPIED:
                    raise OSError(errno.EMLINK, "it has other names, and is too large to be copied")
                # Programs may write on by those links: the copy ends at the size that the file had.
                left = status.st_size
                while left > 0 and (done := os.sendfile(made, read, None, left)):
                    left -= done
                os.fchmod(made, stat.S_IMODE(status.st_mode) & MODE)
                os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
                Granter._link(made, parent, name)
            finally:
                os.close(made)
        finally:
            os.close(read)

    @staticmethod
    def _require_free(change: FileChange, parent: int) -> None:
        if _now(parent, change.entries[0]) is not None:
            raise Changed

    @staticmethod
    def _require_same(change: FileChange, parent: int) -> None:
        if _now(parent, change.entries[0]) != change.entries[0].file:
            raise Changed


def _require_no_repository(change: FileChange, parent: int) -> None:
    entry = change.entries[0]
    if entry.file is not None or not change.makes or is_git_by_name(entry.directory):
        return
    if completes(folded(os.fsdecode(entry.name)), lambda other: may_exist(parent, other)):
        raise Completes


def _now(parent: int, entry: ChangedEntry) -> tuple[int, int, int] | None:
    try:
        return file_id(os.stat(entry.name, dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return None
