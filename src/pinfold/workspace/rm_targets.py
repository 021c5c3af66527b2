"""Directories that a command's own line deletes as a whole (`rm -r`), so that a person is asked once for
each, and not for every file in it.

INVARIANT: of one command it is always the same: it distinguishes calls that wait for one answer. What
cannot be read from the line, or would be too much to ask for at once, is asked about name by name.
"""

import os
from collections import OrderedDict
from posixpath import basename, dirname

from pinfold import shell
from pinfold.model.symlinks import real_path
from pinfold.policy.grants import ANYWHERE, REMOVING, GrantContext, is_too_much
from pinfold.policy.paths import contains, is_covered
from pinfold.policy.shipped_protected import protected_by
from pinfold.sandbox.backend import StartRequest, Wanted

REMEMBERED = 1024
"""Of how many commands it is remembered: far more than can wait at a time."""


class Removals:
    """A session's. Preconditions: one thread at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[str, ...]] = OrderedDict()

    def around(self, wanted: Wanted, context: GrantContext) -> str:
        """The directory that this call is a step of deleting; empty if it is asked about by itself."""
        request, path = wanted.request, wanted.paths[0]
        if wanted.operation not in REMOVING or wanted.rule or not request or not request.entry:
            return ""
        # What is protected by its name is granted by its name alone.
        if protected_by(path, ANYWHERE, wanted.policy.protected):
            return ""
        if request.entry not in self._known:
            self._known[request.entry] = _trees(request, context)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return next((tree for tree in self._known[request.entry] if contains(tree, path)), "")


def _trees(request: StartRequest, context: GrantContext) -> tuple[str, ...]:
    script = shell.parse(request.line)
    known = {"HOME": context.home, "PWD": request.cwd}
    named = (
        (part.directories == ((),), word.known(known) or "")
        for part in script.commands
        if part.program == "rm" and "-r" in part.flags
        for word in part.deletes
    )
    trees = dict.fromkeys(
        _real(os.path.join(request.cwd, name))
        for is_here, name in named
        if name.startswith("/") or (is_here and name)
    )
    return tuple(tree for tree in trees if _may_be_asked_for(tree, context))


def _real(path: str) -> str:
    """Where its name lies: a link at its end is deleted itself."""
    plain = os.path.normpath(path)
    return os.path.join(real_path(dirname(plain)), basename(plain))


def _may_be_asked_for(tree: str, context: GrantContext) -> bool:
    is_named = protected_by(tree, ANYWHERE, context.policy.protected) is not None
    return not (is_named or is_covered(tree, context.writable) or is_too_much(tree, context))
