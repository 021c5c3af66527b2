"""What git may change of its protected names: a new hooks directory, and configuration that is checked.

Git writes its configuration as `config.lock` and renames that file. The warden never lets this very file
become the configuration: the process that wrote it may still have it open. `git_config` judges the text, and
then:
- A configuration that is mounted read-only is changed **in place**, under the mount, by one write. Its inode
  stays, and no process inside was ever able to open it for writing. If the new text is shorter, blank lines
  fill the rest until the file is truncated. So a kill at any moment leaves a configuration that git can read.
- A new repository has no configuration yet. It gets a fresh inode, which has no name until its text is
  complete (O_TMPFILE), so that a kill leaves nothing behind. Then it gets its name and a read-only mount,
  here and in the user's other pens (`peer_wardens`), in a directory that no caller can search meanwhile
  (`late_mounts.closed_directory`). If that directory or a lease shows that a process may have opened the file
  in between, the warden removes it again, and finally denies the call.

Accepted: a kill in those few milliseconds leaves a directory of mode 0 in a repository that was being made.
So `config.worktree` is not created this way: its repository is already in use.

Git in a new repository tests whether file modes are kept, by changing the mode of its configuration. The
read-only mount denies that, and no person need be asked. But git would then record for good that modes are
not kept (`core.filemode`). So the warden runs the test itself, on the lock file.

A new hooks directory may contain `*.sample` files, which git never runs. The directory `branches`, which git
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
from pinfold.sandbox.linux.warden.name_check import PROTECTED, ExemptionResult, NameCheck, ProtectedChange
from pinfold.sandbox.linux.warden.notification import Caller
from pinfold.sandbox.linux.warden.paths import PathTarget
from pinfold.sandbox.linux.warden.peer_wardens import PeerWardens
from pinfold.sandbox.linux.warden.violations import NOT_ASKED

HOOKS = ".git/hooks"
BRANCHES = ".git/branches"
CONFIGURATIONS = {".git/config": b"config", ".git/config.worktree": b"config.worktree"}
SAMPLE = re.compile(rb"[a-z][a-z0-9-]*\.sample")
FILEMODE = re.compile(rb"^([ \t]*filemode[ \t]*=[ \t]*)(?:true|false)\b", re.IGNORECASE | re.MULTILINE)
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
TRIES = 3


class GitExemption:
    """The exemption of `NameCheck` for git's own files."""

    def __init__(self, own_fds: int, proc: int, checks: NameCheck, peers: PeerWardens) -> None:
        self.own_fds, self.proc = own_fds, proc
        """Our own /proc/self/fd, and the host's /proc."""
        self.checks = checks
        self.peers = peers

    def __call__(self, caller: Caller, change: ProtectedChange) -> ExemptionResult | None:
        rule = change.match.rule.name
        if change.operation == "chmod":
            return ExemptionResult.ALLOW if _is_configuration(change.target) else None
        if change.match.rest:
            return None
        if rule == HOOKS:
            return ExemptionResult.ALLOW if _is_new(change, b"hooks") or _is_sample(change) else None
        if rule == BRANCHES:
            return ExemptionResult.ALLOW if _is_new(change, b"branches") else None
        lock = change.other
        if change.operation != "rename" or lock is None or CONFIGURATIONS.get(rule) != change.target.name:
            return None
        if lock.name != change.target.name + b".lock" or lock.parent.path != change.target.parent.path:
            return None
        return self._configure(caller, change, lock)

    def _configure(self, caller: Caller, change: ProtectedChange, lock: PathTarget) -> ExemptionResult:
        new, mode = _contents(lock.directory, lock.name)
        exists = change.target.status() is not None
        if not exists and change.target.name != b"config":
            return ExemptionResult.DENY
        old = _contents(change.target.directory, change.target.name)[0] if exists else b""
        if _is_being_made(lock.directory) and _keeps_modes(lock):
            new = FILEMODE.sub(rb"\1true", new)
        why = objection(new, old)
        if why:
            self._deny(caller, change, lock if exists else None, why)
        elif caller.is_waiting():
            try:
                self._replace(change.target, new, old, mode)
            except OSError as error:
                why = f"the new text could not be protected: {error.strerror}"
                rule = change.match.rule._replace(why=why, grantable=False)
                self.checks.record(caller, change.operation, change.target.path, rule)
                raise
            with suppress(FileNotFoundError):
                os.unlink(lock.name, dir_fd=lock.directory)
            caller.succeed()
        return ExemptionResult.ANSWERED

    def _deny(self, caller: Caller, change: ProtectedChange, lock: PathTarget | None, why: str) -> None:
        """Denies the change, unless a person allows it. The process that wrote the lock file may change it
        until the person has answered, so the question does not quote it. A new configuration is not asked
        about."""

        def refuse(denial: Denial) -> None:
            rule = change.match.rule._replace(why=why, grantable=True)
            self.checks.record(caller, change.operation, change.target.path, rule, denial)
            caller.refuse(PROTECTED)

        questions = self.checks.questions if lock else None
        if not (
            questions and questions.ask(caller, change.operation, change.target, refuse, change.match, lock)
        ):
            refuse(NOT_ASKED)

    def _replace(self, target: PathTarget, new: bytes, old: bytes, mode: int) -> None:
        try:
            thing = os.open(target.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target.directory)
        except FileNotFoundError:
            return self._create(target, new, mode)
        try:
            if late_mounts.is_read_only(thing):
                return _change_below(target, thing, new, old)
        finally:
            os.close(thing)
        # The host has just made the file, and a process inside may have it open: only the host may change it
        # now.
        raise PermissionError(errno.EBUSY, "not mounted read-only yet")

    def _create(self, target: PathTarget, text: bytes, mode: int) -> None:
        for _ in range(TRIES):
            with late_mounts.closed_directory(target.directory, self.proc) as stayed_closed:
                inode = self._make_named(target, text, mode)
                is_safe = False
                try:
                    is_safe = self._is_protected(target, inode, text) and stayed_closed()
                finally:
                    if not is_safe:
                        late_mounts.remove_with_mounts(target.directory, target.name)
                if is_safe:
                    return
        raise PermissionError(errno.EBUSY, "another process writes it")

    def _is_protected(self, target: PathTarget, inode: tuple[int, int], text: bytes) -> bool:
        """Whether the file is read-only by now, here and in the user's other pens, and unchanged since it was
        made."""
        thing = os.open(target.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target.directory)
        try:
            if _identity(thing) != inode:
                return False
            late_mounts.protect(thing)
        finally:
            os.close(thing)
        if not self.peers.all_protect(target.path):
            raise PermissionError(errno.EBUSY, "another sandbox does not answer")
        return _has_no_writer(target, inode, text)

    def _make_named(self, target: PathTarget, text: bytes, mode: int) -> tuple[int, int]:
        """Makes a fresh inode with the text and gives it the name; returns which inode that is."""
        made = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=target.directory)
        try:
            _write(made, text)
            os.fchmod(made, mode)
            linkat(self.own_fds, b"%d" % made, target.directory, target.name, AT_SYMLINK_FOLLOW)
            return _identity(made)
        finally:
            os.close(made)


def _is_configuration(target: PathTarget) -> bool:
    return any(match.rule.name in CONFIGURATIONS for match in target.matches())


def _is_new(change: ProtectedChange, name: bytes) -> bool:
    """Whether the call makes the directory itself."""
    target = change.target
    return (
        target.parent.protection is None and change.operation == "mkdir" and target.name.rstrip(b"/") == name
    )


def _is_sample(change: ProtectedChange) -> bool:
    parent = change.target.parent
    in_hooks = parent.protection is not None and parent.path.endswith("/hooks")
    is_there = in_hooks and not parent.path.endswith("/hooks/hooks")
    return change.operation == "open" and is_there and SAMPLE.fullmatch(change.target.name) is not None


def _contents(directory: int, name: bytes) -> tuple[bytes, int]:
    """The text of a regular file, up to the longest configuration, and its mode."""
    file = os.open(name, READ, dir_fd=directory)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EPERM, "not a regular file")
        return os.pread(file, LARGEST + 1, 0), stat.S_IMODE(status.st_mode) & 0o777
    finally:
        os.close(file)


def _is_being_made(repository: int) -> bool:
    """Git makes the directory for its objects last, after its test of file modes."""
    try:
        os.stat(b"objects", dir_fd=repository, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False


def _keeps_modes(lock: PathTarget) -> bool:
    """Whether chmod can make the caller's lock file, which is about to go, executable."""
    file = os.open(lock.name, READ, dir_fd=lock.directory)
    try:
        before = stat.S_IMODE(os.fstat(file).st_mode) & 0o777
        os.fchmod(file, before ^ stat.S_IXUSR)
        return stat.S_IMODE(os.fstat(file).st_mode) & 0o777 == before ^ stat.S_IXUSR
    except OSError:
        return False
    finally:
        os.close(file)


def _change_below(target: PathTarget, thing: int, new: bytes, old: bytes) -> None:
    """Writes the text into the file under a mount."""
    directory = late_mounts.without_mounts(target.directory)
    try:
        file = os.open(
            target.name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
    finally:
        os.close(directory)
    try:
        same = _identity(file) == _identity(thing) and os.pread(file, LARGEST + 1, 0) == old
        if not same or os.fstat(file).st_nlink != 1:
            raise PermissionError(errno.EBUSY, "the file was replaced, or has another name")
        if len(new) > len(old):
            os.posix_fallocate(file, 0, len(new))
        _write(file, new + b"\n" * (len(old) - len(new)))
        os.ftruncate(file, len(new))
    finally:
        os.close(file)


def _write(file: int, text: bytes) -> None:
    if os.pwrite(file, text, 0) != len(text):
        raise OSError(errno.ENOSPC, "not all of it was written")


def _has_no_writer(target: PathTarget, inode: tuple[int, int], text: bytes) -> bool:
    """Whether the name leads to this inode through a read-only mount, it has this text, and no process can
    write it."""
    file = os.open(target.name, READ, dir_fd=target.directory)
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
