"""System calls that make names, other than of files: mkdir, mknod, link, symlink and rename.

The directory of the new name decides what answers the call:
- Where Landlock leaves the caller all rights (a private /tmp), and where the caller may write nothing, the
  kernel continues the call. It allows or denies by itself, even if the path leads elsewhere by now.
- In a writable root the warden makes the name, through a descriptor of the parent directory that it holds
  (`paths`), once no rule forbids the path that the name really has in the pen (`rules`).

Facts that shape it:
- The warden does every rename in a root, so within this pen nothing moves while it answers one call.
  `rename_lock` keeps the session's other pens from moving things where that matters.
- The kernel follows at most 40 links in a walk.

Accepted: a program that has put itself into a Landlock domain of its own gets names made where that domain
would deny them; the pen's own boundary still holds. Nothing tells us of such a domain. A name reached by a
link of /proc (`/proc/self/cwd/new`) cannot be made in a root; an existing file can be opened that way.
"""

import errno
import os
import stat

from pinfold.kernel import fast_calls
from pinfold.kernel.files import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_SYMLINK_FOLLOW,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    linkat,
    renameat2,
)
from pinfold.model.env_files import is_env_file
from pinfold.model.protected_names import NameMatcher, reached
from pinfold.sandbox.linux.protocol.file_change import MODE
from pinfold.sandbox.linux.protocol.rename_lock import RenameLock
from pinfold.sandbox.linux.warden.caller_state import CallerUmasks
from pinfold.sandbox.linux.warden.name_check import NameCheck
from pinfold.sandbox.linux.warden.notification import Caller, Handler, as_int
from pinfold.sandbox.linux.warden.paths import PathResolver, PathTarget, PlanPaths
from pinfold.sandbox.linux.warden.violations import ViolationLog

MOST_LINKS = 40
OWN_DESCRIPTORS = (b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/")

PathArgument = tuple[int, int]
"""One path of a call: the descriptor that it starts from, and the address of its text."""


class CreateCalls:
    def __init__(
        self,
        proc: int,
        records: ViolationLog,
        plan: PlanPaths,
        matcher: NameMatcher,
        rename_lock: RenameLock,
    ) -> None:
        self.matcher = matcher
        self.records = records
        self.rename_lock = rename_lock
        self.paths = PathResolver(proc, plan, matcher, rename_lock)
        self.checks = NameCheck(records, matcher)
        self.check = self.checks.check
        self.free, self.read_only = (
            tuple(os.fsencode(f"{path}/") for path in places) for places in (plan.free, plan.read_only)
        )
        self.umasks = CallerUmasks(proc, hears_changes=True)
        self.handlers = self._calls()

    def _calls(self) -> dict[str, Handler]:
        """Picks each call's arguments: a path follows a descriptor, or starts at the caller's working
        directory."""
        here = AT_FDCWD
        return {
            "mkdir": lambda it: self.mkdir(it, here, *it.arguments[:2]),
            "mkdirat": lambda it: self.mkdir(it, as_int(it.arguments[0]), *it.arguments[1:3]),
            "mknod": lambda it: self.mknod(it, here, *it.arguments[:2]),
            "mknodat": lambda it: self.mknod(it, as_int(it.arguments[0]), *it.arguments[1:3]),
            "symlink": lambda it: self.symlink(it, it.arguments[0], here, it.arguments[1]),
            "symlinkat": lambda it: self.symlink(
                it, it.arguments[0], as_int(it.arguments[1]), it.arguments[2]
            ),
            "link": lambda it: self.link(it, (here, it.arguments[0]), (here, it.arguments[1]), 0),
            "linkat": lambda it: self.link(it, *_two_ends(it), it.arguments[4] & 0xFFFFFFFF),
            "rename": lambda it: self.rename(it, (here, it.arguments[0]), (here, it.arguments[1]), 0),
            "renameat": lambda it: self.rename(it, *_two_ends(it), 0),
            "renameat2": lambda it: self.rename(it, *_two_ends(it), it.arguments[4] & 0xFFFFFFFF),
            "umask": self.umask,
        }

    # The calls.

    def pass_own_to_kernel(self, caller: Caller, operation: str, target: PathTarget) -> None:
        """A thing in a root is changed: the kernel answers, and a mount of its own may protect the thing."""
        protection = target.protected_by()
        if protection:
            return self.checks.pass_protected_to_kernel(caller, operation, target, protection)
        return caller.resume()

    def follow_links(self, target: PathTarget) -> PathTarget | None:
        """Where the links at the end of a path lead; None if they lead nowhere."""
        found: PathTarget | None = target
        for _ in range(MOST_LINKS):
            link = fast_calls.readlinkat(found.directory, found.name) if found else 0
            if found is None or not isinstance(link, bytes):
                return found
            found = self.paths.walk(found.directory, link)
        return None

    def is_plain(self, caller: Caller, base: int, path: bytes) -> bool:
        """Whether the text of a path shows that commands may write there and that no rule covers it."""
        absolute = self.paths.absolute(caller, base, path)
        is_free = absolute.startswith(self.free) and not absolute.startswith(self.read_only)
        return is_free or self.paths.is_unprotected(absolute)

    def mkdir(self, caller: Caller, base: int, address: int, mode: int) -> None:
        target = self._target_to_make(caller, "mkdir", base, address)
        if (
            target is None
            or self.check(caller, "mkdir", target, directory=True)
            or not self.is_ready(caller, mode)
        ):
            return
        os.mkdir(target.name, mode & MODE, dir_fd=target.directory)
        caller.succeed()

    def mknod(self, caller: Caller, base: int, address: int, mode: int) -> None:
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
            return caller.resume()
        target = self._target_to_make(caller, "mknod", base, address)
        if target is None or self.check(caller, "mknod", target) or not self.is_ready(caller, mode):
            return None
        os.mknod(target.name, mode & (0o170000 | MODE), dir_fd=target.directory)
        self.report_made(target)
        return caller.succeed()

    def symlink(self, caller: Caller, text_address: int, base: int, address: int) -> None:
        text = caller.text(text_address)
        target = self._target_to_make(caller, "symlink", base, address)
        if target is None:
            return None
        if not text:
            return caller.resume()
        if self.check(caller, "symlink", target) or not caller.is_waiting():
            return None
        os.symlink(text, target.name, dir_fd=target.directory)
        self.report_made(target)
        return caller.succeed()

    def link(self, caller: Caller, old: PathArgument, new: PathArgument, flags: int) -> None:
        source = caller.text(old[1])
        target = self._target_at(caller, *new)
        if target is None or source is None:
            return caller.resume()
        if not target.parent.warden_creates:
            return self._link_elsewhere(caller, (old[0], source), target, flags)
        if flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH):
            return caller.refuse(errno.EINVAL)
        thing = self._open_source(caller, old[0], source, flags)
        if thing < 0:
            return caller.refuse(-thing)
        origin = self.paths.path_of(thing)
        matches = self.matcher.matches(origin) if origin.startswith("/") else ()
        if protection := reached(matches):
            return self.checks.refuse(caller, "link", origin, protection, (origin, thing), target)
        if self.check(caller, "link", target, other=(origin, thing)) or not caller.is_waiting():
            return None
        linkat(self.paths.own_fds, b"%d" % thing, target.directory, target.name, AT_SYMLINK_FOLLOW)
        self.report_made(target, origin.rpartition("/")[2])
        return caller.succeed()

    def _link_elsewhere(
        self, caller: Caller, source: tuple[int, bytes], target: PathTarget, flags: int
    ) -> None:
        thing = self._open_source(caller, *source, flags)
        if thing < 0:
            return caller.resume()  # nothing exists to be linked, with or without a right to write
        return self.checks.pass_to_kernel(caller, "link", target, (self.paths.path_of(thing), thing))

    def _open_source(self, caller: Caller, base: int, path: bytes, flags: int) -> int:
        """What a link should lead to, as a descriptor; -errno if there is none."""
        number = base if not path and flags & AT_EMPTY_PATH else _own_descriptor(path, flags)
        if number is None:
            follow = 0 if flags & AT_SYMLINK_FOLLOW else os.O_NOFOLLOW
            return self.paths.open_path(caller, base, path, os.O_PATH | follow)
        try:
            found = caller.descriptor(number)
        except OSError as error:
            return -(error.errno or errno.EBADF)
        self.paths.held.append(found)
        return found

    def rename(self, caller: Caller, old: PathArgument, new: PathArgument, flags: int) -> None:
        # Read before the lock is taken: the caller can delay the reading, and other wardens wait for the
        # lock.
        before, after = caller.text(old[1]), caller.text(new[1])
        self.rename_lock.acquire()
        source, target = self._target(caller, old[0], before), self._target(caller, new[0], after)
        if source is None or target is None:
            return caller.resume()
        if not source.parent.warden_creates or not target.parent.warden_creates:
            return self._rename_elsewhere(caller, source, target)
        if flags & ~(RENAME_EXCHANGE | RENAME_NOREPLACE):
            return caller.refuse(errno.EINVAL)
        for gets, gives in ((target, source), (source, target))[: 2 if flags & RENAME_EXCHANGE else 1]:
            if self.paths.plan.has_root(gives.path):
                return caller.refuse(errno.EBUSY)
            if self.checks.check_move(caller, gives, gets):
                return None
        if not caller.is_waiting():
            return None
        if flags:
            renameat2(source.directory, source.name, target.directory, target.name, flags)
        else:  # takes a third of the time
            os.rename(source.name, target.name, src_dir_fd=source.directory, dst_dir_fd=target.directory)
        self.report_made(target, source.key)
        if flags & RENAME_EXCHANGE:
            self.report_made(source, target.key)
        return caller.succeed()

    def umask(self, caller: Caller) -> None:
        self.umasks.note_change(caller.pid, caller.arguments[0])
        caller.resume()

    def report_made(self, target: PathTarget, source: str = "") -> None:
        """Reports a new name of an `.env` file, which its command may keep reading. A thing that had such a
        name before (`source`) is known already, or belongs to the host and has no mount over it yet."""
        if is_env_file(target.key) and not is_env_file(source):
            self.records.made(target.directory, target.name)

    def _target_to_make(self, caller: Caller, operation: str, base: int, address: int) -> PathTarget | None:
        """The target of a call if the warden is to make it; None if the call has gone back to the kernel."""
        target = self._target_at(caller, base, address)
        if target is None:
            caller.resume()
        elif not target.parent.warden_creates:
            self.checks.pass_to_kernel(caller, operation, target)
        else:
            return target
        return None

    def _target_at(self, caller: Caller, base: int, address: int) -> PathTarget | None:
        return self._target(caller, base, caller.text(address))

    def _target(self, caller: Caller, base: int, path: bytes | None) -> PathTarget | None:
        target = self.paths.find(caller, base, path) if path else None
        if path and target is None:
            self.paths.require_parents(base, path)
        return target

    def _rename_elsewhere(self, caller: Caller, source: PathTarget, target: PathTarget) -> None:
        """A rename where the warden makes no names at one end or both."""
        if source.parent.caller_creates or target.parent.caller_creates:
            return caller.resume()
        if source.status() is None:
            return caller.resume()
        protection = reached((*source.matches(), *target.matches()))
        outside = source if target.parent.warden_creates else target
        return self.checks.pass_to_kernel(caller, "rename", outside, source, target, protection)

    def is_ready(self, caller: Caller, mode: int) -> bool:
        """Adopts the caller's umask if it matters; False if the caller has ended."""
        self.adopt_umask(caller, mode)
        return caller.is_waiting()

    def adopt_umask(self, caller: Caller, mode: int) -> None:
        """Adopts the caller's umask if it matters to this mode."""
        if mode & 0o077 or self.umasks.bind_owners:
            self.umasks.adopt(caller.pid)


def _two_ends(caller: Caller) -> tuple[PathArgument, PathArgument]:
    one, two, three, four = caller.arguments[:4]
    return (as_int(one), two), (as_int(three), four)


def _own_descriptor(path: bytes, flags: int) -> int | None:
    """The number of the caller's own descriptor if the path names one, as open(2) shows for O_TMPFILE."""
    for start in OWN_DESCRIPTORS:
        if flags & AT_SYMLINK_FOLLOW and path.startswith(start) and path[len(start) :].isdigit():
            return int(path[len(start) :])
    return None
