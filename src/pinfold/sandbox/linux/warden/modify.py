"""Calls that change what exists (unlink, rmdir, truncate, chmod), and checks whether a file is writable. Only
pens that ask a person, or record every denial, hear of them.

No call here makes a name, and the kernel judges each by itself. In a pen that asks, all go back to the kernel
except those which it will surely deny.

A check (access(2) with W_OK) grants nothing: what the program does after it is judged, and asked about, by
itself. But a program that gets EROFS does not try: `rm FILE` at a terminal, `mv` onto a file, an editor. So
if the pen alone makes a regular file read-only, and a person may be asked about it, the warden answers that
the file is writable. Until the person was asked neither answer is true, and this one lets the program try.

Programs check directories to find where they may keep something (a cache, an installation), and do without if
none is writable. Told yes, they would ask a person about each file. So only `rm` gets that answer for a
directory: at a terminal it checks each directory that it is to delete. If the user may not write either, or
no answer could grant it, the kernel gives its own answer.

Programs hardly ever change owners and extended attributes by path, and the warden does not change them for a
caller. It records what was denied, so that the command can be run again with a grant.
"""

import errno
import os
import stat

from pinfold.kernel.files import AT_FDCWD, access_error
from pinfold.sandbox.linux.warden.create import CreateCalls
from pinfold.sandbox.linux.warden.name_check import OUTSIDE
from pinfold.sandbox.linux.warden.notification import Caller, Handler, as_int
from pinfold.sandbox.linux.warden.paths import PathTarget

AT_REMOVEDIR = 0x200
AT_SYMLINK_NOFOLLOW = 0x100
DELETERS = ("rm",)
MODES = os.R_OK | os.W_OK | os.X_OK


class ModifyCalls:
    def __init__(self, create: CreateCalls) -> None:
        self.create = create
        self.handlers = self._calls()

    def _calls(self) -> dict[str, Handler]:
        here = AT_FDCWD
        return {
            "unlink": lambda it: self.change(it, "unlink", here, it.arguments[0]),
            "rmdir": lambda it: self.change(it, "rmdir", here, it.arguments[0]),
            "unlinkat": self._unlinkat,
            "truncate": lambda it: self.change(it, "truncate", here, it.arguments[0], follow=True),
            "chmod": lambda it: self.change(it, "chmod", here, it.arguments[0], follow=True),
            "fchmodat": lambda it: self._fchmodat(it, 0),
            "fchmodat2": lambda it: self._fchmodat(it, it.arguments[3]),
            "setxattr": lambda it: self.record_change(it, "setxattr", here, it.arguments[0], follow=True),
            "lsetxattr": lambda it: self.record_change(it, "setxattr", here, it.arguments[0]),
            "removexattr": lambda it: self.record_change(
                it, "removexattr", here, it.arguments[0], follow=True
            ),
            "lremovexattr": lambda it: self.record_change(it, "removexattr", here, it.arguments[0]),
            "chown": lambda it: self.record_change(it, "chown", here, it.arguments[0], follow=True),
            "lchown": lambda it: self.record_change(it, "chown", here, it.arguments[0]),
            "fchownat": self._fchownat,
            "access": lambda it: self.check_access(it, here, *it.arguments[:2], 0),
            "faccessat": lambda it: self.check_access(it, as_int(it.arguments[0]), *it.arguments[1:3], 0),
            "faccessat2": lambda it: self.check_access(it, as_int(it.arguments[0]), *it.arguments[1:4]),
        }

    def _unlinkat(self, caller: Caller) -> None:
        base, address, flags = caller.arguments[:3]
        self.change(caller, "rmdir" if flags & AT_REMOVEDIR else "unlink", as_int(base), address)

    def _fchmodat(self, caller: Caller, flags: int) -> None:
        base, address = caller.arguments[:2]
        self.change(caller, "chmod", as_int(base), address, follow=not flags & AT_SYMLINK_NOFOLLOW)

    def change(self, caller: Caller, operation: str, base: int, address: int, follow: bool = False) -> None:
        path = caller.text(address)
        if not path or self.create.is_plain(caller, base, path):
            return caller.resume()
        target = self.create.paths.find(caller, base, path)
        if target and follow:
            target = self.create.follow_links(target)
        if target is None or target.parent.caller_creates or target.status() is None:
            return caller.resume()
        if self.create.checks.is_exempt(caller, operation, target):
            return caller.resume()
        if target.parent.warden_creates:
            return self.create.pass_own_to_kernel(caller, operation, target)
        return self.create.checks.pass_to_kernel(caller, operation, target)

    def _fchownat(self, caller: Caller) -> None:
        base, address, _, _, flags, _ = caller.arguments
        self.record_change(caller, "chown", as_int(base), address, follow=not flags & AT_SYMLINK_NOFOLLOW)

    def record_change(
        self, caller: Caller, operation: str, base: int, address: int, follow: bool = False
    ) -> None:
        """Records a change that the warden does not make for callers, if only the pen keeps the caller from
        it."""
        path = caller.text(address)
        target = None
        if path and not self.create.is_plain(caller, base, path):
            target = self.create.paths.find(caller, base, path)
            if target and follow:
                target = self.create.follow_links(target)
        if target and not target.parent.warden_creates and self._is_closed_by_pen(target, os.W_OK):
            self.create.checks.record(caller, operation, target.path, OUTSIDE)
        caller.resume()

    def check_access(self, caller: Caller, base: int, address: int, mode: int, flags: int) -> None:
        path = caller.text(address)
        if not path or self.create.is_plain(caller, base, path):
            return caller.resume()
        target = self.create.paths.find(caller, base, path)
        if target and not flags & AT_SYMLINK_NOFOLLOW:
            target = self.create.follow_links(target)
        if target and self._may_become_writable(caller, target, mode & MODES):
            return caller.succeed()
        return caller.resume()

    def _may_become_writable(self, caller: Caller, target: PathTarget, mode: int) -> bool:
        """Whether only the pen makes it read-only, a person may be asked, and saying so would help the
        program."""
        status = target.status()
        if status is None or not self._is_closed_by_pen(target, mode):
            return False
        kind = stat.S_IFMT(status.st_mode)
        # The program's name is its own choice, but this answer reveals nothing that trying would not.
        return kind == stat.S_IFREG or (kind == stat.S_IFDIR and caller.identify()[1] in DELETERS)

    def _is_closed_by_pen(self, target: PathTarget, mode: int) -> bool:
        """Whether the user's own rights would suffice, and a person may be asked for the rest."""
        questions = self.create.checks.questions
        if questions is None or target.parent.caller_creates or target.status() is None:
            return False
        protection = target.protected_by()
        if not questions.is_askable(protection, target.path) or (
            target.parent.warden_creates and not protection
        ):
            return False
        # The kernel checks the mount last: EROFS means that the user's own rights suffice.
        return access_error(target.directory, target.name, mode) == errno.EROFS
