"""Opens that only read, in pens that record them: which hidden files a program tried to see.

The warden denies and grants nothing here: the kernel continues every such call (CONTINUE), with or without a
find. That is safe for reads alone. A hidden file is not there for the caller: an empty one is mounted in its
place, and the kernel resolves the path again. A thread that swaps the path after the check changes what is
recorded, never what is read.

Accepted: a hidden file is recorded when it is opened. Calls that only ask whether it exists (stat, access) or
list its directory are not seen. A name in a hidden directory is recorded whether it exists or not, since the
pen cannot tell.
"""

import os
from collections.abc import Collection

from pinfold.kernel import fast_calls
from pinfold.kernel.files import AT_FDCWD, RESOLVE_NO_MAGICLINKS
from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import NameRule
from pinfold.sandbox.linux.warden.create import CreateCalls
from pinfold.sandbox.linux.warden.notification import Caller, Handler, as_int
from pinfold.sandbox.linux.warden.open import OpenCalls
from pinfold.sandbox.linux.warden.paths import SLASH
from pinfold.sandbox.linux.warden.violations import READ
from pinfold.sandbox.seccomp.profile import WRITING

HIDDEN = NameRule("", "it is hidden", grantable=False, code=ViolationCode.HIDDEN)
MACHINE = "/sys/"
"""Every pen hides parts of /sys, and no user keeps secrets there."""


class ReadAudit:
    def __init__(self, create: CreateCalls, opens: OpenCalls, hidden: Collection[str]) -> None:
        """`hidden` is the live set of hidden paths: it grows with the pen's."""
        self.create = create
        self.opens = opens
        self.hidden = hidden
        self.handlers: dict[str, Handler] = {
            "open": lambda it: self._open(it, "open", AT_FDCWD, *it.arguments[:2]),
            "openat": lambda it: self._open(it, "openat", as_int(it.arguments[0]), *it.arguments[1:3]),
        }

    def _open(self, caller: Caller, call: str, base: int, address: int, flags: int) -> None:
        if flags & WRITING:
            return self.opens.handlers[call](caller)
        try:
            path = self._path(caller, base, address)
            if path.startswith("/") and self._is_hidden(path) and caller.is_waiting():
                self.create.checks.record(caller, READ, path, HIDDEN)
        finally:
            self.create.paths.release()
            caller.resume()
        return None

    def _path(self, caller: Caller, base: int, address: int) -> str:
        """The path in the pen that a call leads to, as far as it exists; empty if it cannot be told."""
        path = caller.text(address)
        if not path:
            return ""
        start = AT_FDCWD if path[0] == SLASH else caller.directory(base)
        if start >= 0:
            self.create.paths.held.append(start)
        elif start != AT_FDCWD:
            return ""
        found = fast_calls.openat2(start, path, os.O_PATH, RESOLVE_NO_MAGICLINKS)
        if found < 0:
            return self._missing_path(start, path)
        self.create.paths.held.append(found)
        return self.create.paths.path_of(found)

    def _missing_path(self, start: int, path: bytes) -> str:
        """The path that a missing thing would have, such as a name in a hidden directory."""
        rest: list[str] = []
        while path.strip(b"/") not in (b"", b".", b".."):
            target = self.create.paths.walk(start, path)
            if target and not rest:
                target = self.create.follow_links(target)
            if target:
                return "/".join((target.path, *reversed(rest)))
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
