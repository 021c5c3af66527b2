"""Calls that change what exists, in pens that ask or note all: unlink, rmdir, truncate, chmod.

Nothing here makes a name, and the kernel judges each of these calls by itself: a pen where nobody can be
asked does not hear of them, unless it notes all that is denied. One that asks lets all of them go on but
those which the kernel will surely refuse.
"""

from collections.abc import Callable

from pinfold.sandbox.linux.caller import AT_FDCWD, Caller, as_int
from pinfold.sandbox.linux.names import Names

AT_REMOVEDIR = 0x200
AT_SYMLINK_NOFOLLOW = 0x100


class Changing:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.handlers = {name: names.releasing(handler) for name, handler in self._calls().items()}

    def _calls(self) -> dict[str, Callable[[Caller], None]]:
        here = AT_FDCWD
        return {
            "unlink": lambda it: self.change(it, "unlink", here, it.arguments[0]),
            "rmdir": lambda it: self.change(it, "rmdir", here, it.arguments[0]),
            "unlinkat": self._unlinkat,
            "truncate": lambda it: self.change(it, "truncate", here, it.arguments[0], follow=True),
            "chmod": lambda it: self.change(it, "chmod", here, it.arguments[0], follow=True),
            "fchmodat": lambda it: self._fchmodat(it, 0),
            "fchmodat2": lambda it: self._fchmodat(it, it.arguments[3]),
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
        if spot.place.made_by_warden:
            return self.names.leave_own(caller, operation, spot)
        return self.names.judging.leave(caller, operation, spot)
