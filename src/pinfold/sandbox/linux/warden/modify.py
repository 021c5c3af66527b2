"""Calls that change what exists, in pens that ask or note all: unlink, rmdir, truncate, chmod; and looks at
whether a file may be written.

Nothing here makes a name, and the kernel judges each of these calls by itself: a pen where nobody can be
asked does not hear of them, unless it notes all that is denied. One that asks lets all of them go on but
those which the kernel will surely refuse.

A look (access(2) with W_OK) gives nothing: whatever is done after it is judged, and asked about, by itself.
But who hears EROFS does not try: `rm FILE` at a terminal, `mv` onto a file, an editor. So of a plain file
that only the fence keeps from being written, and that a person may be asked about, it is said that it may be
written: until they were asked neither answer is true, and this one leaves it to them.

Of a directory programs ask where they might keep something (a cache, an installation), and do without if it
is nowhere there; told yes, they would ask a person for each file. So that is for `rm` alone, which at a
terminal looks at each directory that it is to delete. What the user may not write either, and what nobody may
grant, is left to the kernel's own answer.

Owners and extended attributes are hardly ever changed by path, and nobody changes them on a caller's behalf:
what was refused is noted, so that the command can be run again with leave for it.
"""

import errno
import os
import stat

from pinfold.kernel.files import AT_FDCWD, access_error
from pinfold.sandbox.linux.warden.create import Names
from pinfold.sandbox.linux.warden.notification import Caller, Handler, as_int
from pinfold.sandbox.linux.warden.paths import Spot
from pinfold.sandbox.linux.warden.rules import OUTSIDE

AT_REMOVEDIR = 0x200
AT_SYMLINK_NOFOLLOW = 0x100
DELETERS = ("rm",)
MODES = os.R_OK | os.W_OK | os.X_OK


class Changing:
    def __init__(self, names: Names) -> None:
        self.names = names
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
            "setxattr": lambda it: self.note(it, "setxattr", here, it.arguments[0], follow=True),
            "lsetxattr": lambda it: self.note(it, "setxattr", here, it.arguments[0]),
            "removexattr": lambda it: self.note(it, "removexattr", here, it.arguments[0], follow=True),
            "lremovexattr": lambda it: self.note(it, "removexattr", here, it.arguments[0]),
            "chown": lambda it: self.note(it, "chown", here, it.arguments[0], follow=True),
            "lchown": lambda it: self.note(it, "chown", here, it.arguments[0]),
            "fchownat": self._fchownat,
            "access": lambda it: self.look(it, here, *it.arguments[:2], 0),
            "faccessat": lambda it: self.look(it, as_int(it.arguments[0]), *it.arguments[1:3], 0),
            "faccessat2": lambda it: self.look(it, as_int(it.arguments[0]), *it.arguments[1:4]),
        }

    def _unlinkat(self, caller: Caller) -> None:
        base, address, flags = caller.arguments[:3]
        self.change(caller, "rmdir" if flags & AT_REMOVEDIR else "unlink", as_int(base), address)

    def _fchmodat(self, caller: Caller, flags: int) -> None:
        base, address = caller.arguments[:2]
        self.change(caller, "chmod", as_int(base), address, follow=not flags & AT_SYMLINK_NOFOLLOW)

    def change(self, caller: Caller, operation: str, base: int, address: int, follow: bool = False) -> None:
        path = caller.text(address)
        if not path or self.names.is_plain(caller, base, path):
            return caller.resume()
        spot = self.names.spots.find(caller, base, path)
        if spot and follow:
            spot = self.names.followed(spot)
        if spot is None or spot.place.free or spot.status() is None:
            return caller.resume()
        if self.names.judging.is_exempt(caller, operation, spot):
            return caller.resume()
        if spot.place.made_by_warden:
            return self.names.leave_own(caller, operation, spot)
        return self.names.judging.leave(caller, operation, spot)

    def _fchownat(self, caller: Caller) -> None:
        base, address, _, _, flags, _ = caller.arguments
        self.note(caller, "chown", as_int(base), address, follow=not flags & AT_SYMLINK_NOFOLLOW)

    def note(self, caller: Caller, operation: str, base: int, address: int, follow: bool = False) -> None:
        """A change that nobody makes on a caller's behalf: what only the fence keeps it from is noted."""
        path = caller.text(address)
        spot = None
        if path and not self.names.is_plain(caller, base, path):
            spot = self.names.spots.find(caller, base, path)
            if spot and follow:
                spot = self.names.followed(spot)
        if spot and not spot.place.made_by_warden and self._is_closed_by_fence(spot, os.W_OK):
            self.names.judging.record(caller, operation, spot.path, OUTSIDE)
        caller.resume()

    def look(self, caller: Caller, base: int, address: int, mode: int, flags: int) -> None:
        path = caller.text(address)
        if not path or self.names.is_plain(caller, base, path):
            return caller.resume()
        spot = self.names.spots.find(caller, base, path)
        if spot and not flags & AT_SYMLINK_NOFOLLOW:
            spot = self.names.followed(spot)
        if spot and self._might_be_written(caller, spot, mode & MODES):
            return caller.succeed()
        return caller.resume()

    def _might_be_written(self, caller: Caller, spot: Spot, mode: int) -> bool:
        """Whether it is read-only in the pen alone, somebody may be asked for it, and a hint would help."""
        status = spot.status()
        if status is None or not self._is_closed_by_fence(spot, mode):
            return False
        kind = stat.S_IFMT(status.st_mode)
        # What the caller calls itself: it is told nothing here that it could not find out by trying.
        return kind == stat.S_IFREG or (kind == stat.S_IFDIR and caller.who()[1] in DELETERS)

    def _is_closed_by_fence(self, spot: Spot, mode: int) -> bool:
        """Whether the user's own rights would be enough, and a person may be asked for the rest."""
        asking = self.names.judging.asking
        if asking is None or spot.place.free or spot.status() is None:
            return False
        lost = spot.protected_by()
        if not asking.is_askable(lost, spot.path) or (spot.place.made_by_warden and not lost):
            return False
        # The kernel names the mount last: the user's own rights are enough, then.
        return access_error(spot.directory, spot.name, mode) == errno.EROFS
