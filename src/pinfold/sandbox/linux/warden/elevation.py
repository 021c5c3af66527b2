"""Calls that wait for a person: the warden's part of a question.

What policy denies and a person may grant is told to the host as a deed, and the call is put aside: others are
answered meanwhile. The host decides whether anybody is asked, joins like questions and bounds them; if the
answer is yes it has the deed done outside of the pen (`hand`) and sends what came of it.

INVARIANT: nothing is read of a caller after its call was put aside. What it is given is what was looked at
then, as the inodes are that are held here for as long as it waits: whatever the caller's threads have changed
since changes nothing, and no inode's number can become another's.

Facts that shape it:
- Nothing tells that a caller has died while it waits, and only a fatal signal ends its wait by itself. So
  while some wait we look, and one for whom a signal waits that is meant to end it (ctrl-C) hears EINTR.
- A host that reads slowly makes no warden wait: what could not be told is told at the next look.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable
from typing import NamedTuple

from pinfold.kernel.files import RENAME_EXCHANGE
from pinfold.kernel.syscall import number
from pinfold.kernel.syscall_numbers import MACHINE, NUMBERS
from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import GIT, Match, NameRule, components, matcher_of, split_git_path
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import DirectoryEntry, FileChange, FileId, file_id
from pinfold.sandbox.linux.protocol.warden import OTHERWISE, CallAnswer, CallAsked, CallWithdrawn, Denial
from pinfold.sandbox.linux.warden.notification import ALL_FLAGS, CREAT, Caller, as_int
from pinfold.sandbox.linux.warden.paths import Spot
from pinfold.sandbox.linux.warden.violations import NOT_ASKED

LOOK = 0.1
"""Seconds between two looks at those who wait."""
MOST = 4096
MOST_HELD = 512
SIGNALS = 64
"""Of how many callers signals are looked at in one look: it takes 13 us each."""
ALL_BITS = 0xFFFFFFFF
NO_RULE = NameRule("", "", code=ViolationCode.OUTSIDE)
WINDOWS = ("/proc", "/dev", "/sys")
"""What a pen has of its own, or only to look at: there is nothing of it outside."""
ABSENT_OR = {
    "open": (stat.S_IFREG,),
    "rename": (stat.S_IFREG, stat.S_IFLNK),
    "unlink": (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK),
    "rmdir": (stat.S_IFDIR,),
    "truncate": (stat.S_IFREG,),
    "chmod": (stat.S_IFREG, stat.S_IFDIR),
}
"""What may stand at the name that is changed; of other calls nothing may."""
MUST_EXIST = ("unlink", "rmdir", "truncate", "chmod")

# By call: where its flags or mode are among its arguments.
_NUMBERS = {
    "open": (1, 2), "openat": (2, 3), "mkdir": (1,), "mkdirat": (2,), "mknod": (1,), "mknodat": (2,),
    "renameat2": (4,), "truncate": (1,), "chmod": (1,), "fchmodat": (2,), "fchmodat2": (2,),
}  # fmt: skip
NUMBERS_OF = {number(name): at for name, at in _NUMBERS.items() if name in NUMBERS[MACHINE]}
CREAT_CALL, TRUNCATE = NUMBERS[MACHINE].get("creat"), NUMBERS[MACHINE].get("truncate")
TARGET_AT = 0
"""The argument of symlink and symlinkat that says where it leads."""

Otherwise = Callable[[Denial], None]
"""Answers as if nobody could be asked; told what the host said of it, which may be nothing."""


class Pending(NamedTuple):
    caller: Caller
    asked: CallAsked
    otherwise: Otherwise
    held: tuple[tuple[int, int], ...]
    protects: bool
    """Whether what comes of it is to be mounted read-only at once."""


class Asking:
    def __init__(self, host: socket.socket, rules: tuple[NameRule, ...], roots: tuple[str, ...]) -> None:
        self.host = host
        self.pending: dict[int, Pending] = {}
        """By the call's id."""
        self.untold: list[int] = []
        self.held: dict[tuple[int, int], list[int]] = {}
        """Inodes, by device and number: a descriptor, and how many wait that need it."""
        self.protect: Callable[[str], None] = lambda _path: None
        """Mounts something new read-only."""
        self.others = matcher_of(tuple(rule for rule in rules if rule.name != GIT), roots)
        """The rules but that about git writes as a whole, which stands for all that git keeps."""

    def hold(
        self,
        caller: Caller,
        operation: str,
        spot: Spot,
        otherwise: Otherwise,
        match: Match | None = None,
        source: Spot | tuple[str, int] | None = None,
    ) -> bool:
        """Whether somebody will be asked; then the caller waits, and the answer comes by `answer`.

        `match` is the protected name that is in the way, if it is one; `source` the other end of a rename, or
        the path of what is linked and our descriptor of it.
        """
        other = source.path if isinstance(source, Spot) else source[0] if source else ""
        if len(self.pending) >= MOST or not self.is_askable(match, spot.path, other):
            return False
        if operation == "mkdir" and match and match.rule.is_git_writes and _is_repositorys(spot):
            # A new repository: its hooks and configuration would each be asked about. It fails, and one
            # question follows whether it may be run again with git's writes, where they are vetted.
            return False
        rule = (*self._of_git(match, spot.path, other), match.rule)[0] if match else NO_RULE
        held: list[tuple[int, int]] = []
        try:
            change = self._change(caller, operation, spot, source, held)
        except OSError:
            change = None
        tag, program = caller.who()
        if change is None or not caller.is_waiting():
            self._let_go(held)
            return False
        asked = CallAsked(
            caller.id,
            tag,
            caller.pid,
            program,
            rule.name,
            rule.why,
            rule.code.value,
            rule.is_git_writes,
            change,
        )
        protects = bool(match) and change.makes
        self.pending[caller.id] = Pending(caller, asked, otherwise, tuple(held), protects)
        self._tell(caller.id)
        return True

    def is_askable(self, match: Match | None, *paths: str) -> bool:
        """Whether a person may grant it, as far as the rules say: the host may know better."""
        if any(_is_window(path) for path in paths):
            return False
        if match is None:
            return True
        if match.rule.is_git_writes and match.rule.name != GIT:
            # A repository of another name: each of its files would be asked about. It fails, and one question
            # follows whether it may be run again with git's writes.
            return False
        return all(rule.grantable for rule in (match.rule, *self._of_git(match, *paths)))

    def _of_git(self, match: Match, *paths: str) -> list[NameRule]:
        """The rules about these very paths, where it is git's writes as a whole that are closed."""
        if match.rule.name != GIT:
            return []
        return [
            each.rule for path in filter(None, paths) for each in self.others.matches(path) if not each.rest
        ]

    def _tell(self, id_: int) -> bool:
        try:
            channel.send(self.host, self.pending[id_].asked)
        except BlockingIOError:
            self.untold.append(id_)
            return False
        except (OSError, channel.Closed):
            # Nobody is there to be asked.
            self._drop(id_).otherwise(NOT_ASKED)
        return True

    def answer(self, answer: CallAnswer, descriptors: list[int]) -> None:
        """What the host says of a call, with what has the descriptor in it that it is to be given."""
        try:
            pending = self._drop(answer.id) if answer.id in self.pending else None
            if pending is None:
                return None
            caller = pending.caller
            if answer.error == OTHERWISE:
                return pending.otherwise(answer.denial)
            if answer.error:
                return caller.refuse(answer.error)
            change = pending.asked.change
            if pending.protects:
                self.protect(change.path)
            if change.operation != "open":
                return caller.succeed()
            try:
                opened = channel.taken(descriptors[0])
            except OSError as failure:
                return caller.refuse(failure.errno or errno.EINTR)
            if error := caller.give(opened, bool(change.numbers[0] & os.O_CLOEXEC)):
                os.close(opened)
                caller.refuse(error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def give_up(self) -> None:
        """The host is gone: nobody will answer."""
        for id_ in list(self.pending):
            self._drop(id_).otherwise(NOT_ASKED)

    def look(self) -> None:
        """To be called every now and then while some wait."""
        untold, self.untold = self.untold, []
        for place, id_ in enumerate(untold):
            if id_ in self.pending and not self._tell(id_):
                self.untold += untold[place + 1 :]
                break
        for id_, pending in list(self.pending.items()):
            if not pending.caller.is_waiting():
                self._withdraw(id_)
        # The first have waited longest; whoever was looked at goes behind the others.
        for id_ in list(self.pending)[:SIGNALS]:
            pending = self.pending.pop(id_)
            self.pending[id_] = pending
            if pending.caller.is_interrupted():
                self._withdraw(id_)
                pending.caller.refuse(errno.EINTR)

    def _withdraw(self, id_: int) -> None:
        self._drop(id_)
        try:
            channel.send(self.host, CallWithdrawn(id_))
        except (OSError, channel.Closed):
            return  # its answer will find nobody

    def _drop(self, id_: int) -> Pending:
        pending = self.pending.pop(id_)
        self._let_go(pending.held)
        return pending

    # What is looked at, once.

    def _change(
        self,
        caller: Caller,
        operation: str,
        spot: Spot,
        source: Spot | tuple[str, int] | None,
        held: list[tuple[int, int]],
    ) -> FileChange | None:
        entry = self._entry(spot, held)
        if source is None and operation in ("rename", "link"):
            return None
        if entry is None or not _is_possible(operation, entry.file):
            return None
        entries = [entry]
        if isinstance(source, Spot):
            other = self._entry(source, held)
            if other is None or other.file is None or other.file[0] != stat.S_IFREG:
                return None
            entries.append(other)
        elif source:
            other = self._linked(*source, held)
            if other is None:
                return None
            entries.append(other)
        numbers = _numbers(caller)
        if operation == "rename" and numbers[0] & RENAME_EXCHANGE:
            return None
        if operation == "chmod":
            status = os.stat(entry.name, dir_fd=spot.directory, follow_symlinks=False)
            numbers = (*numbers, status.st_mode)
        text = (caller.text(caller.arguments[TARGET_AT]) or b"") if operation == "symlink" else b""
        return FileChange(operation, tuple(entries), (*numbers, caller.umask()), text)

    def _entry(self, spot: Spot, held: list[tuple[int, int]]) -> DirectoryEntry | None:
        place = spot.place.path
        if not place.startswith("/"):
            return None
        name = spot.name.rstrip(b"/")
        parent = self._hold(spot.directory, b"", held)
        try:
            thing = self._hold(spot.directory, name, held)
        except FileNotFoundError:
            thing = None
        return DirectoryEntry(place, parent[1:], name, thing)

    def _linked(self, path: str, thing: int, held: list[tuple[int, int]]) -> DirectoryEntry | None:
        """What is to get another name: by its path, which the hand compares again."""
        directory, _, name = path.rpartition("/")
        if not path.startswith("/") or not name:
            return None
        status = os.stat(directory or "/", follow_symlinks=False)
        found = self._hold(thing, b"", held)
        if found[0] != stat.S_IFREG:
            return None
        return DirectoryEntry(directory or "/", (status.st_dev, status.st_ino), os.fsencode(name), found)

    def _hold(self, directory: int, name: bytes, held: list[tuple[int, int]]) -> FileId:
        """Keeps the inode as long as the call waits, so that its number stays its own."""
        if name:
            descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        else:
            descriptor = os.dup(directory)
        found = file_id(os.fstat(descriptor))
        if known := self.held.get(found[1:]):
            os.close(descriptor)
            known[1] += 1
        elif len(self.held) >= MOST_HELD:
            os.close(descriptor)
            raise OSError("too many wait")
        else:
            self.held[found[1:]] = [descriptor, 1]
        held.append(found[1:])
        return found

    def _let_go(self, held: "list[tuple[int, int]] | tuple[tuple[int, int], ...]") -> None:
        for inode in held:
            known = self.held[inode]
            known[1] -= 1
            if not known[1]:
                os.close(known[0])
                del self.held[inode]


def _is_repositorys(spot: Spot) -> bool:
    """Whether a directory would be a repository's: a `.git`, or that of a submodule in one."""
    if not spot.place.inside:
        return spot.key == GIT
    return split_git_path(components(spot.path)).module is not None


def _is_possible(operation: str, thing: FileId | None) -> bool:
    if thing is None:
        return operation not in MUST_EXIST
    return thing[0] in ABSENT_OR.get(operation, ())


def _is_window(path: str) -> bool:
    return any(path == window or path.startswith(f"{window}/") for window in WINDOWS)


def _numbers(caller: Caller) -> tuple[int, ...]:
    """The call's flags and mode, which lie in registers: nobody changes them while it waits."""
    if caller.number == CREAT_CALL:
        return CREAT, caller.arguments[1] & ALL_BITS
    found = [caller.arguments[at] for at in NUMBERS_OF.get(caller.number, ())]
    if len(found) == 2:
        return found[0] & ALL_FLAGS, found[1] & ALL_BITS
    return tuple(as_int(each) if caller.number != TRUNCATE else each for each in found) or (0,)
