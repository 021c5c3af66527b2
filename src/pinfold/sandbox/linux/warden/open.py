"""Opens that may make or change a file: the warden makes them for the caller, or leaves them to the kernel.

Facts that shape it:
- An open for writing makes no name if the name exists, so it goes back to the kernel: it may block (a FIFO),
  be a device, or mean the caller (/dev/stdout). Landlock and the mounts judge it again. But a regular file
  that the call would make if it were missing is opened here. If another call removed it meanwhile, the kernel
  would see a name to be made, and deny it.
- Opens that write into existing files arrive here only in pens that ask a person or record everything. Most
  concern no rule, and the text of the path alone shows that of most.
- Most files are made in directories that are known already. A walk that follows no link (openat2) ends where
  the text of its path says, or fails. Then one call resolves and creates, which takes a third of the time.

Accepted: the host or another session may replace a caller's directory within these microseconds. Then the
file is made in the new directory. It is judged by the path that it really has.
"""

import errno
import os
import stat

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.protocol.file_change import MODE
from pinfold.sandbox.linux.warden.create import MOST_LINKS, CreateCalls
from pinfold.sandbox.linux.warden.notification import ALL_FLAGS, CREAT, Caller, Handler, as_int
from pinfold.sandbox.linux.warden.paths import SLASH, PathTarget, PlanPaths

O_TMPFILE = os.O_TMPFILE
UNNAMED = O_TMPFILE | os.O_PATH
"""With O_PATH the call makes nothing: it opens the directory."""
NEVER_CREATES = os.O_PATH | os.O_DIRECTORY
NAMES_IT_ALONE = os.O_EXCL | os.O_NOFOLLOW
"""With either, the kernel follows no link at the end."""
MAKES_OR_EMPTIES = os.O_CREAT | os.O_TRUNC
EMPTIED_UNWRITTEN = os.O_TRUNC | os.O_WRONLY | os.O_RDWR
"""The first without the others: the kernel empties a file that is opened for reading."""
ENV = b"/.env"
"""A path with this text may make an `.env` file, which is reported (`CreateCalls.report_made`)."""
DEVICES = (b"/dev/", b"/proc/")
"""Devices and processes: what can be opened there exists, except for the pen's own things in it."""


class OpenCalls:
    def __init__(self, create: CreateCalls, plan: PlanPaths, rules: tuple[NameRule, ...]) -> None:
        self.create = create
        self.paths = create.paths
        self.checks = create.checks
        self.check = create.check
        self.writable = tuple(os.fsencode(f"{path}/") for path in (*plan.watched, *plan.free))
        plain = [os.fsencode(rule.name) for rule in rules if not rule.name.startswith(".")]
        self.marks = frozenset(name.partition(b"/")[0] for name in plain if name[0] != SLASH)
        self.marked = tuple(name.removeprefix(b"*") for name in plain if name.startswith((b"/", b"*.")))
        """Every protected path, as the rules spell it, has a component that starts with a dot or is in
        `marks`, or contains a text of `marked`."""
        self.handlers: dict[str, Handler] = {
            "open": lambda it: self.open(it, AT_FDCWD, *it.arguments[:3]),
            "openat": self._openat,
            "creat": lambda it: self.open(it, AT_FDCWD, it.arguments[0], CREAT, it.arguments[1]),
        }

    def _openat(self, caller: Caller) -> None:
        base, address, flags, mode, _, _ = caller.arguments
        self.open(caller, as_int(base), address, flags, mode)

    def open(self, caller: Caller, base: int, address: int, flags: int, mode: int) -> None:
        # The kernel takes from a register only what fits the argument's type.
        flags, mode = flags & ALL_FLAGS, mode & MODE
        if flags & UNNAMED == O_TMPFILE:
            return self._open_unnamed(caller, base, address, flags, mode)
        path = caller.text(address)
        if not path or path.endswith(b"/"):
            return caller.resume()
        makes = flags & os.O_CREAT and not flags & NEVER_CREATES
        if path[0] == SLASH and not path.startswith(self.writable):
            if path.startswith(DEVICES):
                return caller.resume()
            if not makes:
                # The kernel alone denies a change of what exists. It is recorded if the text of the path
                # suffices.
                return self._open_existing(caller, base, path, flags)
        if not makes:
            plain = not self.checks.sees_all_changes or self._is_unmarked(path)
            if plain or self.create.is_plain(caller, base, path):
                return caller.resume()
            return self._open_existing(caller, base, path, flags)
        absolute = self.paths.absolute(caller, base, path)
        if ENV not in absolute and self.paths.is_unprotected(absolute):
            if not flags & NAMES_IT_ALONE and self._open_if_present(caller, AT_FDCWD, absolute, flags):
                return None
            if self._create_plain(caller, absolute, flags, mode):
                return None
        target = self.paths.find(caller, base, path)
        if target is None:
            self.paths.require_parents(base, path)
        if target is None or not target.parent.warden_creates:
            return self._open_elsewhere(caller, target, flags)
        if not flags & os.O_EXCL:
            return self._open_at(caller, target, flags, mode)
        # The file existed just now. If it is removed meanwhile, the kernel would answer that no name may be
        # made.
        return None if self._create(caller, target, flags, mode) else caller.refuse(errno.EEXIST)

    def _open_at(self, caller: Caller, target: PathTarget | None, flags: int, mode: int) -> None:
        for _ in range(MOST_LINKS):
            if target is None or not target.parent.warden_creates:
                return self._open_elsewhere(caller, target, flags)
            link = fast_calls.readlinkat(target.directory, target.name)
            if isinstance(link, bytes) and not flags & os.O_NOFOLLOW:
                # The link's target is judged like any path, since it may not exist.
                target = self.paths.walk(target.directory, link)
            elif isinstance(link, int) and link != -errno.EINVAL:
                # Judged first: a protected file may appear meanwhile, and must not be opened here.
                if self._create(caller, target, flags, mode):
                    return None
            elif target.protected_by():
                # Normally a mount of its own denies the write, unless the host has just made the file.
                return None if self.check(caller, "open", target) else caller.resume()
            elif self._open_if_present(caller, target.directory, target.name, flags):
                return None
        return caller.refuse(errno.ELOOP)

    @staticmethod
    def _open_if_present(caller: Caller, directory: int, path: bytes, flags: int) -> bool:
        """Opens an existing file for a call that would make it if it were missing. False if it is missing or
        a link.

        If the kernel did this and another call removed the file meanwhile, the caller would get EACCES for
        making a name, in a place where it may. Preconditions: no rule covers the path.
        """
        try:
            status = os.stat(path, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return False
        if stat.S_ISLNK(status.st_mode):
            return False
        if not stat.S_ISREG(status.st_mode) or flags & EMPTIED_UNWRITTEN == os.O_TRUNC:
            caller.resume()
            return True
        # The holder of a lease may delay others that open the file, but not with O_NONBLOCK.
        opened = fast_calls.openat2(
            directory, path, flags & ~MAKES_OR_EMPTIES | os.O_NONBLOCK, fast_calls.NO_LINKS
        )
        if opened == -errno.ENOENT:
            return False
        if opened < 0:
            caller.resume()  # the kernel gives the same error, or waits
            return True
        if not flags & os.O_NONBLOCK:
            os.set_blocking(opened, True)
        truncates = bool(flags & os.O_TRUNC)
        if error := caller.give(opened, bool(flags & os.O_CLOEXEC), truncates=truncates):
            os.close(opened)
            caller.refuse(error)
        return True

    def _open_existing(self, caller: Caller, base: int, path: bytes, flags: int) -> None:
        """Handles a call that makes no name. The kernel alone decides, unless a person may be asked first."""
        target = self.paths.find(caller, base, path)
        if target and self.checks.sees_all_changes and not flags & NAMES_IT_ALONE:
            target = self.create.follow_links(target)
        if target is None or target.status() is None:
            return caller.resume()
        if target.parent.warden_creates:
            return self.create.pass_own_to_kernel(caller, "open", target)
        return self.checks.pass_to_kernel(caller, "open", target)

    def _open_elsewhere(self, caller: Caller, target: PathTarget | None, flags: int) -> None:
        """Handles a call that may make a name in a directory where the warden makes none."""
        if target and self.checks.sees_all_changes and not flags & NAMES_IT_ALONE:
            target = self.create.follow_links(target)
        if target is None or (flags & os.O_EXCL and target.status()):
            return caller.resume()
        return self.checks.pass_to_kernel(caller, "open", target)

    def _is_unmarked(self, path: bytes) -> bool:
        """Whether the text of an absolute path shows that no rule covers it, so that no person need be
        asked."""
        if path[0] != SLASH or b"/." in path or not self.marks.isdisjoint(path.split(b"/")):
            return False
        return not self.marked or not any(mark in path for mark in self.marked)

    def _create_plain(self, caller: Caller, path: bytes, flags: int, mode: int) -> bool:
        """Makes a file in one step where no rule can apply; False if that is not possible.

        The kernel follows no link in the whole path, so it leads where its text says, and that text was
        judged.
        """
        self.create.adopt_umask(caller, mode)
        made = fast_calls.make_file(path, flags, mode)
        if made < 0:
            return False
        error = caller.give(made, bool(flags & os.O_CLOEXEC))
        if error:
            self._take_back(caller, made, self.paths.walk(AT_FDCWD, path), error)
        return True

    def _create(self, caller: Caller, target: PathTarget, flags: int, mode: int) -> bool:
        """Makes a file; True if the caller has its answer, False if the name exists."""
        if self.check(caller, "open", target):
            return True
        self.create.adopt_umask(caller, mode)
        try:
            # O_EXCL follows no link either, and the descriptor's flags do not show it afterwards.
            made = os.open(target.name, flags | os.O_EXCL, mode, dir_fd=target.directory)
        except FileExistsError:
            return False
        self.create.report_made(target)
        error = caller.give(made, bool(flags & os.O_CLOEXEC))
        if error:
            self._take_back(caller, made, target, error)
        return True

    @staticmethod
    def _take_back(caller: Caller, made: int, target: PathTarget | None, error: int) -> None:
        """Removes a file that could not be given to the caller, if it is still where it was made."""
        ours = os.fstat(made)
        os.close(made)
        there = target.status() if target else None
        if target and there and os.path.samestat(ours, there):
            os.unlink(target.name, dir_fd=target.directory)
        caller.refuse(error)

    def _open_unnamed(self, caller: Caller, base: int, address: int, flags: int, mode: int) -> None:
        """O_TMPFILE: the path names a directory. The file gets a name by a later link, which is judged
        then."""
        path = caller.text(address)
        target = self.paths.directory(caller, base, path) if path else None
        if target is None:
            return caller.resume()
        if not target.parent.warden_creates:
            return self.checks.pass_to_kernel(caller, "open", target)
        if target.parent.protection:
            return self.checks.refuse(caller, "open", target, target.parent.protection)
        self.create.adopt_umask(caller, mode)
        made = fast_calls.openat(target.directory, b".", flags, mode)
        if made < 0:
            return caller.refuse(-made)
        error = caller.give(made, bool(flags & os.O_CLOEXEC))
        if not error:
            return None
        os.close(made)
        return caller.refuse(error)
