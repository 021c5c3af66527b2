"""Calls that wait for a person's answer: the warden's part of a question.

If the policy denies a change that a person may grant, the warden describes it to the host and holds the call;
it answers others meanwhile. The host decides whether a person is asked, and joins and bounds similar
questions. If the answer is yes, the host has the granter make the change outside the pen, and sends the
result.

INVARIANT: the warden reads nothing of a caller once it holds the call. The answer is about what was seen
then: the inodes stay open here as long as the call waits. So no later change by the caller's threads counts,
and no inode number can be reused.

Facts that shape it:
- No event says that a waiting caller has died, and only a fatal signal ends its wait by itself. So while
  calls wait, the warden checks on them. A caller with a pending signal that should end the call (ctrl-C) gets
  EINTR.
- A host that reads slowly does not block the warden: messages that found no room are sent at the next check.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable
from typing import NamedTuple

from pinfold.kernel.files import RENAME_EXCHANGE
from pinfold.kernel.syscall import MACHINE, NUMBERS, number
from pinfold.model.codes import ViolationCode
from pinfold.model.protected_names import GIT, Match, NameRule, components, matcher_of, split_git_path
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.file_change import ChangedEntry, FileChange, FileId, file_id
from pinfold.sandbox.linux.protocol.warden import OTHERWISE, CallAnswer, CallAsked, CallWithdrawn, Denial
from pinfold.sandbox.linux.warden.notification import ALL_FLAGS, CREAT, Caller, as_int
from pinfold.sandbox.linux.warden.paths import PathTarget
from pinfold.sandbox.linux.warden.violations import NOT_ASKED

CHECK_INTERVAL = 0.1
"""Seconds between two checks on waiting callers."""
MOST = 4096
MOST_HELD = 512
SIGNALS = 64
"""How many callers to check for signals at once: 13 us each."""
ALL_BITS = 0xFFFFFFFF
NO_RULE = NameRule("", "", code=ViolationCode.OUTSIDE)
PEN_ONLY = ("/proc", "/dev", "/sys")
"""Directories that a pen has of its own or read-only: they do not exist outside, so no person can grant
them."""
ABSENT_OR = {
    "open": (stat.S_IFREG,),
    "rename": (stat.S_IFREG, stat.S_IFLNK),
    "unlink": (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK),
    "rmdir": (stat.S_IFDIR,),
    "truncate": (stat.S_IFREG,),
    "chmod": (stat.S_IFREG, stat.S_IFDIR),
}
"""The file types that may have the name before the call; for other calls the name must be free."""
MUST_EXIST = ("unlink", "rmdir", "truncate", "chmod")

# The indexes of flags and mode among a call's arguments.
_NUMBERS = {
    "open": (1, 2), "openat": (2, 3), "mkdir": (1,), "mkdirat": (2,), "mknod": (1,), "mknodat": (2,),
    "renameat2": (4,), "truncate": (1,), "chmod": (1,), "fchmodat": (2,), "fchmodat2": (2,),
}  # fmt: skip
NUMBERS_OF = {number(name): at for name, at in _NUMBERS.items() if name in NUMBERS[MACHINE]}
CREAT_CALL, TRUNCATE = NUMBERS[MACHINE].get("creat"), NUMBERS[MACHINE].get("truncate")
TARGET_AT = 0
"""The argument of symlink and symlinkat that holds the text of the link."""

Fallback = Callable[[Denial], None]
"""Answers a call as if no person could be asked; takes what the host said about it, possibly nothing."""


class PendingCall(NamedTuple):
    caller: Caller
    asked: CallAsked
    fallback: Fallback
    held: tuple[tuple[int, int], ...]
    protects: bool
    """Whether the result must be mounted read-only at once."""


class PendingQuestions:
    def __init__(self, host: socket.socket, rules: tuple[NameRule, ...], roots: tuple[str, ...]) -> None:
        self.host = host
        self.pending: dict[int, PendingCall] = {}
        """By the id of the call."""
        self.unsent: list[int] = []
        self.held: dict[tuple[int, int], list[int]] = {}
        """Held inodes by device and number: a descriptor, and how many waiting calls need it."""
        self.protect: Callable[[str], None] = lambda _path: None
        """Mounts a new file read-only."""
        self.others = matcher_of(tuple(rule for rule in rules if rule.name != GIT), roots)
        """The rules without the one about all git writes, which covers everything that git keeps."""

    def ask(
        self,
        caller: Caller,
        operation: str,
        target: PathTarget,
        fallback: Fallback,
        match: Match | None = None,
        source: PathTarget | tuple[str, int] | None = None,
    ) -> bool:
        """Whether the call waits for an answer; then `answer` ends it.

        `match` is the protected name involved, if any. `source` is the other end of a rename; of a link, the
        path and our descriptor of the file.
        """
        other = source.path if isinstance(source, PathTarget) else source[0] if source else ""
        if len(self.pending) >= MOST or not self.is_askable(match, target.path, other):
            return False
        if operation == "mkdir" and match and match.rule.is_git_writes and _belongs_to_repository(target):
            # A new repository would need a question for each of its hooks and its configuration. The call
            # fails, and one question follows: whether the command may run again with git writes, which are
            # checked.
            return False
        rule = (*self._git_rules(match, target.path, other), match.rule)[0] if match else NO_RULE
        held: list[tuple[int, int]] = []
        try:
            change = self._describe_change(caller, operation, target, source, held)
        except OSError:
            change = None
        tag, program = caller.identify()
        if change is None or not caller.is_waiting():
            self._release(held)
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
        self.pending[caller.id] = PendingCall(caller, asked, fallback, tuple(held), protects)
        self._send(caller.id)
        return True

    def is_askable(self, match: Match | None, *paths: str) -> bool:
        """Whether the rules let a person grant it; the host may still know better."""
        if any(_is_pen_only(path) for path in paths):
            return False
        if match is None:
            return True
        if match.rule.is_git_writes and match.rule.name != GIT:
            # A repository under another name would need a question for each file. The call fails, and one
            # question follows: whether the command may run again with git writes.
            return False
        return all(rule.grantable for rule in (match.rule, *self._git_rules(match, *paths)))

    def _git_rules(self, match: Match, *paths: str) -> list[NameRule]:
        """The rules about these very paths, where the rule about all git writes applies."""
        if match.rule.name != GIT:
            return []
        return [
            each.rule for path in filter(None, paths) for each in self.others.matches(path) if not each.rest
        ]

    def _send(self, id_: int) -> bool:
        try:
            channel.send(self.host, self.pending[id_].asked)
        except BlockingIOError:
            self.unsent.append(id_)
            return False
        except (OSError, channel.ChannelClosed):
            # No host is left to ask.
            self._drop(id_).fallback(NOT_ASKED)
        return True

    def answer(self, answer: CallAnswer, descriptors: list[int]) -> None:
        """Takes the host's answer to a call. For an open, a message in a socket holds the descriptor to
        give."""
        try:
            pending = self._drop(answer.id) if answer.id in self.pending else None
            if pending is None:
                return None
            caller = pending.caller
            if answer.error == OTHERWISE:
                return pending.fallback(answer.denial)
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
        """The host is gone, so no answer will come: every call gets its fallback."""
        for id_ in list(self.pending):
            self._drop(id_).fallback(NOT_ASKED)

    def check_waiting(self) -> None:
        """Checks on waiting callers; to be called regularly while calls wait."""
        unsent, self.unsent = self.unsent, []
        for index, id_ in enumerate(unsent):
            if id_ in self.pending and not self._send(id_):
                self.unsent += unsent[index + 1 :]
                break
        for id_, pending in list(self.pending.items()):
            if not pending.caller.is_waiting():
                self._withdraw(id_)
        # The first ones have waited longest; each checked call moves behind the others.
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
        except (OSError, channel.ChannelClosed):
            return  # no call waits for its answer any more

    def _drop(self, id_: int) -> PendingCall:
        pending = self.pending.pop(id_)
        self._release(pending.held)
        return pending

    # What is read, once.

    def _describe_change(
        self,
        caller: Caller,
        operation: str,
        target: PathTarget,
        source: PathTarget | tuple[str, int] | None,
        held: list[tuple[int, int]],
    ) -> FileChange | None:
        entry = self._entry(target, held)
        if source is None and operation in ("rename", "link"):
            return None
        if entry is None or not _is_possible(operation, entry.file):
            return None
        entries = [entry]
        if isinstance(source, PathTarget):
            other = self._entry(source, held)
            if other is None or other.file is None or other.file[0] != stat.S_IFREG:
                return None
            entries.append(other)
        elif source:
            other = self._linked_entry(*source, held)
            if other is None:
                return None
            entries.append(other)
        numbers = _flags_and_mode(caller)
        if operation == "rename" and numbers[0] & RENAME_EXCHANGE:
            return None
        if operation == "chmod":
            status = os.stat(entry.name, dir_fd=target.directory, follow_symlinks=False)
            numbers = (*numbers, status.st_mode)
        text = (caller.text(caller.arguments[TARGET_AT]) or b"") if operation == "symlink" else b""
        return FileChange(operation, tuple(entries), (*numbers, caller.umask()), text)

    def _entry(self, target: PathTarget, held: list[tuple[int, int]]) -> ChangedEntry | None:
        directory = target.parent.path
        if not directory.startswith("/"):
            return None
        name = target.name.rstrip(b"/")
        parent = self._hold(target.directory, b"", held)
        try:
            thing = self._hold(target.directory, name, held)
        except FileNotFoundError:
            thing = None
        return ChangedEntry(directory, parent[1:], name, thing)

    def _linked_entry(self, path: str, thing: int, held: list[tuple[int, int]]) -> ChangedEntry | None:
        """The entry of a file to link to: by its path, which the granter compares again."""
        directory, _, name = path.rpartition("/")
        if not path.startswith("/") or not name:
            return None
        status = os.stat(directory or "/", follow_symlinks=False)
        found = self._hold(thing, b"", held)
        if found[0] != stat.S_IFREG:
            return None
        return ChangedEntry(directory or "/", (status.st_dev, status.st_ino), os.fsencode(name), found)

    def _hold(self, directory: int, name: bytes, held: list[tuple[int, int]]) -> FileId:
        """Keeps the inode open while the call waits, so that its number stays its own."""
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
            raise OSError("too many calls wait")
        else:
            self.held[found[1:]] = [descriptor, 1]
        held.append(found[1:])
        return found

    def _release(self, held: "list[tuple[int, int]] | tuple[tuple[int, int], ...]") -> None:
        for inode in held:
            known = self.held[inode]
            known[1] -= 1
            if not known[1]:
                os.close(known[0])
                del self.held[inode]


def _belongs_to_repository(target: PathTarget) -> bool:
    """Whether the directory would belong to a repository: a `.git`, or a submodule's directory in one."""
    if not target.parent.protection:
        return target.key == GIT
    return split_git_path(components(target.path)).module is not None


def _is_possible(operation: str, thing: FileId | None) -> bool:
    if thing is None:
        return operation not in MUST_EXIST
    return thing[0] in ABSENT_OR.get(operation, ())


def _is_pen_only(path: str) -> bool:
    return any(path == window or path.startswith(f"{window}/") for window in PEN_ONLY)


def _flags_and_mode(caller: Caller) -> tuple[int, ...]:
    """The call's flags and mode. They are in registers, which cannot change while the call waits."""
    if caller.number == CREAT_CALL:
        return CREAT, caller.arguments[1] & ALL_BITS
    found = [caller.arguments[at] for at in NUMBERS_OF.get(caller.number, ())]
    if len(found) == 2:
        return found[0] & ALL_FLAGS, found[1] & ALL_BITS
    return tuple(as_int(each) if caller.number != TRUNCATE else each for each in found) or (0,)
