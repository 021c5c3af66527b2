"""What git may have of its protected names: a new hooks directory, and configuration that is vetted.

Git writes its configuration as `config.lock` and renames that. The warden never lets such a file become the
configuration: whoever wrote it may still hold it open. What it says is judged (`gitconfig`), and then:
- A configuration that is mounted read-only is changed **in place**, under the mount, by one write: its inode
  stays, and nobody inside was ever able to open it for writing. What a shorter text leaves of the longer one
  is blank lines until it is cut off, so that a kill at any moment leaves a configuration that git reads.
- A repository that is new has none yet. It gets a fresh inode, which has no name until its text is complete
  (O_TMPFILE), so that nothing is left behind by a kill; then its name and a read-only mount, here and in the
  user's other pens (`neighbours`), in a directory that nobody can search meanwhile (`late.closed`). If that
  or a lease tells that somebody may have opened it in between, it is taken away again, and in the end the
  call is refused.

Accepted: a kill in those few milliseconds leaves a directory of mode 0 behind, in a repository that was being
made. So `config.worktree` is not born here: it would be in one that somebody has.

A new repository's git tries whether modes are kept, by giving its configuration another one, which the mount
refuses, and which nobody need be asked about; and would write down for good that they are not
(`core.filemode`). Whether they are is found out here instead, of the lock.

In a new hooks directory there may be `*.sample`, which git never runs. The directory `branches`, which git
makes in a new repository, stays empty.
"""

import errno
import fcntl
import os
import re
import stat
from contextlib import suppress

from pinfold.kernel.files import AT_SYMLINK_FOLLOW, linkat
from pinfold.model.git_files import LARGEST
from pinfold.sandbox.linux.protocol.warden import Denial
from pinfold.sandbox.linux.warden import late_mounts
from pinfold.sandbox.linux.warden.git_config import objection
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.paths import Spot
from pinfold.sandbox.linux.warden.peers import Neighbours
from pinfold.sandbox.linux.warden.rules import PROTECTED, Judge, Verdict, Wish
from pinfold.sandbox.linux.warden.violations import NOT_ASKED

HOOKS = ".git/hooks"
BRANCHES = ".git/branches"
CONFIGURATIONS = {".git/config": b"config", ".git/config.worktree": b"config.worktree"}
SAMPLE = re.compile(rb"[a-z][a-z0-9-]*\.sample")
FILEMODE = re.compile(rb"^([ \t]*filemode[ \t]*=[ \t]*)(?:true|false)\b", re.IGNORECASE | re.MULTILINE)
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
TRIES = 3


class Git:
    """An exemption of `Judge`."""

    def __init__(self, own: int, proc: int, judging: Judge, neighbours: Neighbours) -> None:
        self.own, self.proc = own, proc
        """Our /proc/self/fd, and the host's /proc."""
        self.judging = judging
        self.neighbours = neighbours

    def __call__(self, caller: Caller, wish: Wish) -> Verdict | None:
        rule = wish.match.rule.name
        if wish.operation == "chmod":
            return Verdict.GO_ON if _is_configuration(wish.spot) else None
        if wish.match.rest:
            return None
        if rule == HOOKS:
            return Verdict.GO_ON if _is_new(wish, b"hooks") or _is_sample(wish) else None
        if rule == BRANCHES:
            return Verdict.GO_ON if _is_new(wish, b"branches") else None
        lock = wish.other
        if wish.operation != "rename" or lock is None or CONFIGURATIONS.get(rule) != wish.spot.name:
            return None
        if lock.name != wish.spot.name + b".lock" or lock.place.path != wish.spot.place.path:
            return None
        return self._configure(caller, wish, lock)

    def _configure(self, caller: Caller, wish: Wish, lock: Spot) -> Verdict:
        new, mode = _contents(lock.directory, lock.name)
        exists = wish.spot.status() is not None
        if not exists and wish.spot.name != b"config":
            return Verdict.REFUSED
        old = _contents(wish.spot.directory, wish.spot.name)[0] if exists else b""
        if _is_being_made(lock.directory) and _keeps_modes(lock):
            new = FILEMODE.sub(rb"\1true", new)
        why = objection(new, old)
        if why:
            self._object(caller, wish, lock if exists else None, why)
        elif caller.is_waiting():
            try:
                self._put(wish.spot, new, old, mode)
            except OSError as error:
                why = f"its new text could not be put under its protection: {error.strerror}"
                rule = wish.match.rule._replace(why=why, grantable=False)
                self.judging.record(caller, wish.operation, wish.spot.path, rule)
                raise
            with suppress(FileNotFoundError):
                os.unlink(lock.name, dir_fd=lock.directory)
            caller.succeed()
        return Verdict.ANSWERED

    def _object(self, caller: Caller, wish: Wish, lock: Spot | None, why: str) -> None:
        """A person may still let it through, whatever it says: who wrote the lock may write into it until
        they have answered, so the question does not tell what was found in it. A birth is not asked about."""

        def refuse(denial: Denial) -> None:
            rule = wish.match.rule._replace(why=why, grantable=True)
            self.judging.record(caller, wish.operation, wish.spot.path, rule, denial)
            caller.refuse(PROTECTED)

        asking = self.judging.asking if lock else None
        if not (asking and asking.hold(caller, wish.operation, wish.spot, refuse, wish.match, lock)):
            refuse(NOT_ASKED)

    def _put(self, spot: Spot, new: bytes, old: bytes, mode: int) -> None:
        try:
            thing = os.open(spot.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.directory)
        except FileNotFoundError:
            return self._give_birth(spot, new, mode)
        try:
            if late_mounts.is_read_only(thing):
                return _change_below(spot, thing, new, old)
        finally:
            os.close(thing)
        # The host has just made it, and whoever is inside may hold it open: only the host may go on with it.
        raise PermissionError(errno.EBUSY, "not mounted read-only yet")

    def _give_birth(self, spot: Spot, text: bytes, mode: int) -> None:
        for _ in range(TRIES):
            with late_mounts.closed(spot.directory, self.proc) as stayed_closed:
                inode = self._named(spot, text, mode)
                is_safe = False
                try:
                    is_safe = self._is_protected(spot, inode, text) and stayed_closed()
                finally:
                    if not is_safe:
                        late_mounts.take_away(spot.directory, spot.name)
                if is_safe:
                    return
        raise PermissionError(errno.EBUSY, "somebody writes it")

    def _is_protected(self, spot: Spot, inode: tuple[int, int], text: bytes) -> bool:
        """Whether it is read-only by now, here and in the user's other pens, and still what was made."""
        thing = os.open(spot.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.directory)
        try:
            if _identity(thing) != inode:
                return False
            late_mounts.protect(thing)
        finally:
            os.close(thing)
        if not self.neighbours.all_protect(spot.path):
            raise PermissionError(errno.EBUSY, "another pen does not answer")
        return _is_written_by_nobody(spot, inode, text)

    def _named(self, spot: Spot, text: bytes, mode: int) -> tuple[int, int]:
        """A fresh inode with the text, under its name; which inode that is."""
        made = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=spot.directory)
        try:
            _write(made, text)
            os.fchmod(made, mode)
            linkat(self.own, b"%d" % made, spot.directory, spot.name, AT_SYMLINK_FOLLOW)
            return _identity(made)
        finally:
            os.close(made)


def _is_configuration(spot: Spot) -> bool:
    return any(match.rule.name in CONFIGURATIONS for match in spot.matches())


def _is_new(wish: Wish, name: bytes) -> bool:
    """Whether it is the directory itself, which is being made."""
    spot = wish.spot
    return spot.place.inside is None and wish.operation == "mkdir" and spot.name.rstrip(b"/") == name


def _is_sample(wish: Wish) -> bool:
    place = wish.spot.place
    in_hooks = place.inside is not None and place.path.endswith("/hooks")
    is_there = in_hooks and not place.path.endswith("/hooks/hooks")
    return wish.operation == "open" and is_there and SAMPLE.fullmatch(wish.spot.name) is not None


def _contents(directory: int, name: bytes) -> tuple[bytes, int]:
    """The text of a plain file, as far as a configuration may be long, and its mode."""
    file = os.open(name, READ, dir_fd=directory)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EPERM, "no plain file")
        return os.pread(file, LARGEST + 1, 0), stat.S_IMODE(status.st_mode) & 0o777
    finally:
        os.close(file)


def _is_being_made(repository: int) -> bool:
    """Git makes the place for its objects last, after this trial."""
    try:
        os.stat(b"objects", dir_fd=repository, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False


def _keeps_modes(lock: Spot) -> bool:
    """Whether a file of the caller's that is about to go can be made a program, and then is one."""
    file = os.open(lock.name, READ, dir_fd=lock.directory)
    try:
        before = stat.S_IMODE(os.fstat(file).st_mode) & 0o777
        os.fchmod(file, before ^ stat.S_IXUSR)
        return stat.S_IMODE(os.fstat(file).st_mode) & 0o777 == before ^ stat.S_IXUSR
    except OSError:
        return False
    finally:
        os.close(file)


def _change_below(spot: Spot, thing: int, new: bytes, old: bytes) -> None:
    """Writes the text into the file under a mount."""
    directory = late_mounts.uncovered(spot.directory)
    try:
        file = os.open(spot.name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        same = _identity(file) == _identity(thing) and os.pread(file, LARGEST + 1, 0) == old
        if not same or os.fstat(file).st_nlink != 1:
            raise PermissionError(errno.EBUSY, "it is another by now, or has another name")
        if len(new) > len(old):
            os.posix_fallocate(file, 0, len(new))
        _write(file, new + b"\n" * (len(old) - len(new)))
        os.ftruncate(file, len(new))
    finally:
        os.close(file)


def _write(file: int, text: bytes) -> None:
    if os.pwrite(file, text, 0) != len(text):
        raise OSError(errno.ENOSPC, "not all of it was written")


def _is_written_by_nobody(spot: Spot, inode: tuple[int, int], text: bytes) -> bool:
    """Whether the name leads, read-only, to this inode, it has this text, and nobody could change that."""
    file = os.open(spot.name, READ, dir_fd=spot.directory)
    try:
        if not late_mounts.is_read_only(file) or _identity(file) != inode:
            return False
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        return os.pread(file, LARGEST + 1, 0) == text
    except BlockingIOError:
        return False
    finally:
        os.close(file)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
