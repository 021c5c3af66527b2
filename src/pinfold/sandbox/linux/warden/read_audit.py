"""Opens that only read, in pens that note them: which hidden things a program wanted to see.

Nothing is refused here, and nothing is let through: every such call goes on (CONTINUE), whatever was found.
That is right for reads alone, since what they must not see is not there for them: something empty is mounted
in its place, and the kernel judges the path again. Whoever swaps the path after the look has changed what is
noted, never what is read.

Accepted: what is hidden is noted when it is opened. Who only asks whether it is there (stat, access) or
lists the directory above is not heard of; and a name in a hidden directory is noted whether it exists or not,
as the pen cannot tell.
"""

import os
from collections.abc import Collection

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_MAGICLINKS
from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.warden.create import Names
from pinfold.sandbox.linux.warden.notification import Caller, Handler, as_int
from pinfold.sandbox.linux.warden.open import Opening
from pinfold.sandbox.linux.warden.paths import SLASH
from pinfold.sandbox.linux.warden.violations import READ
from pinfold.sandbox.seccomp.profile import WRITING

HIDDEN = NameRule("", "it is hidden", grantable=False, code=ViolationCode.HIDDEN)
MACHINE = "/sys/"
"""What is hidden there is so in every pen, and nobody keeps anything in it."""


class Reading:
    def __init__(self, names: Names, opening: Opening, hidden: Collection[str]) -> None:
        """`hidden` is what the pen hides now, and grows with it."""
        self.names = names
        self.opening = opening
        self.hidden = hidden
        self.handlers: dict[str, Handler] = {
            "open": lambda it: self._open(it, "open", AT_FDCWD, *it.arguments[:2]),
            "openat": lambda it: self._open(it, "openat", as_int(it.arguments[0]), *it.arguments[1:3]),
        }

    def _open(self, caller: Caller, call: str, base: int, address: int, flags: int) -> None:
        if flags & WRITING:
            return self.opening.handlers[call](caller)
        try:
            path = self._place(caller, base, address)
            if path.startswith("/") and self._is_hidden(path) and caller.is_waiting():
                self.names.judging.record(caller, READ, path, HIDDEN)
        finally:
            self.names.spots.release()
            caller.resume()
        return None

    def _place(self, caller: Caller, base: int, address: int) -> str:
        """Where a path leads in the pen, as far as it leads anywhere; empty if that cannot be told."""
        path = caller.text(address)
        if not path:
            return ""
        start = AT_FDCWD if path[0] == SLASH else caller.directory(base)
        if start >= 0:
            self.names.spots.held.append(start)
        elif start != AT_FDCWD:
            return ""
        found = fast_calls.openat2(start, path, os.O_PATH, RESOLVE_NO_MAGICLINKS)
        if found < 0:
            return self._absent(start, path)
        self.names.spots.held.append(found)
        return self.names.spots.path_of(found)

    def _absent(self, start: int, path: bytes) -> str:
        """Where something would be that is not there, as what lies in a hidden directory is not."""
        rest: list[str] = []
        while path.strip(b"/") not in (b"", b".", b".."):
            spot = self.names.spots.walk(start, path)
            if spot and not rest:
                spot = self.names.followed(spot)
            if spot:
                return "/".join((spot.path, *reversed(rest)))
            head, slash, name = path.rstrip(b"/").rpartition(b"/")
            rest.append(os.fsdecode(name))
            path = head if slash else b""
        return ""

    def _is_hidden(self, path: str) -> bool:
        if path.startswith(MACHINE):
            return False
        while path:
            if path in self.hidden:
                return True
            path = path.rpartition("/")[0]
        return False
